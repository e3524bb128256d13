"""Everything public as files. Written a batch at a time, so that memory does not grow with the service."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from kernelmill.dataset import paths
from kernelmill.leaderboard import catalog
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.db.types import AnyRow
from kernelmill.leaderboard.errors import Invalid
from kernelmill.trace_schema import Trace, Workload
from kernelmill.trace_schema.errors import DatasetError

BATCH = 2000
COLUMNS = ("definition", "solution_hash", "solution", "author", "device_model", "workload_uuid", "status", "verdict")


def write_parquet(
    database: Database, path: Path, definition: str | None, device_model: str | None, *, most: int
) -> None:
    """Raises Invalid for more rows than one file may have."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.string()) for name in (*COLUMNS, "trace")])
    with database.read() as connection, pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in _batches(connection, definition, device_model, most):
            columns = [[getattr(row, name) for row in batch] for name in COLUMNS]
            writer.write_table(pa.table([*columns, [row.body for row in batch]], schema=schema))


def write_dataset(database: Database, path: Path, definition: str | None, *, most: int) -> None:
    """A gzipped tar of the public layout. Blobs are not in it: workloads name them, the dataset has them.

    Traces are gathered in files beside `path` first, since a tar wants to know sizes beforehand.
    """
    with database.read() as connection, tarfile.open(path, "w:gz", compresslevel=3) as archive:
        op_types = {}
        for row in connection.execute(_named(select(t.Definition).where(t.Definition.is_current), definition)):
            op_types[row.name] = row.op_type
            _add(archive, paths.definition_file(row.op_type, row.name), row.body)
            _add(archive, paths.workload_file(row.op_type, row.name), _workloads(connection, row.name))
        stored = _solutions(connection, archive, op_types)
        files: dict[str, Path] = {}
        for batch in _batches(connection, definition, None, most):
            _spool((row for row in batch if row.solution_hash in stored), op_types, files, path.parent)
        for name, spooled in files.items():
            with spooled.open("rb") as stream:
                info = tarfile.TarInfo(name)
                info.size = spooled.stat().st_size
                archive.addfile(info, stream)


def _workloads(connection: Connection, definition: str) -> str:
    query = select(t.Workload.body).where(
        t.Workload.definition == definition, t.Workload.is_current, t.Workload.split != catalog.HIDDEN
    )
    found = [Workload.model_validate_json(body) for body in connection.scalars(query.order_by(t.Workload.position))]
    traces = [Trace(definition=definition, workload=each, solution=None, evaluation=None) for each in found]
    return "".join(f"{trace.model_dump_json(exclude_unset=True)}\n" for trace in traces)


def _spool(rows: Iterable[AnyRow], op_types: dict[str, str], files: dict[str, Path], folder: Path) -> None:
    """Append each trace to the file that stands for its place in the layout."""
    bodies: dict[str, list[str]] = {}
    for row in rows:
        name = paths.trace_file(row.author, op_types[row.definition], row.definition)
        bodies.setdefault(name, []).append(f"{row.body}\n")
    for name, lines in bodies.items():
        files.setdefault(name, folder / f"{len(files)}.jsonl")
        with files[name].open("a", encoding="utf-8") as stream:
            stream.writelines(lines)


def _solutions(connection: Connection, archive: tarfile.TarFile, op_types: dict[str, str]) -> set[str]:
    """Write them; the hashes of those that are written."""
    written = set()
    query = (
        select(t.Solution.hash, t.Solution.name, t.Solution.definition, t.Solution.body, t.Author.name.label("author"))
        .join(t.Author, t.Author.id == t.Solution.author_id)
        .where(t.Solution.is_public, t.Solution.hidden_at.is_(None), t.Solution.definition.in_(op_types))
    )
    for row in connection.execute(query.order_by(t.Solution.name)):
        try:
            file = paths.solution_file(row.author, op_types[row.definition], row.definition, row.name)
        except DatasetError:  # a name that no file can have: its traces are told by hash in the Parquet file
            continue
        _add(archive, file, row.body)
        written.add(row.hash)
    return written


def _batches(
    connection: Connection, definition: str | None, device_model: str | None, most: int
) -> Iterator[list[AnyRow]]:
    own = t.Trace
    query = (
        select(
            own.id,
            own.definition,
            own.solution_hash,
            t.Solution.name.label("solution"),
            t.Author.name.label("author"),
            own.device_model,
            own.workload_uuid,
            own.status,
            own.verdict,
            own.body,
        )
        .join(t.Solution, t.Solution.hash == own.solution_hash)
        .join(t.Author, t.Author.id == t.Solution.author_id)
        .where(own.is_ranked, own.is_hidden.is_(False), t.Solution.hidden_at.is_(None))
    )
    if definition is not None:
        query = query.where(own.definition == definition)
    if device_model is not None:
        query = query.where(own.device_model == device_model)
    last = total = 0
    while batch := list(connection.execute(query.where(own.id > last).order_by(own.id).limit(BATCH))):
        last, total = batch[-1].id, total + len(batch)
        if total > most:
            raise Invalid("definition", f"there are more than {most} traces; export one definition at a time")
        yield batch


def _named(query: Any, definition: str | None) -> Any:
    return query if definition is None else query.where(t.Definition.name == definition)


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode()
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))
