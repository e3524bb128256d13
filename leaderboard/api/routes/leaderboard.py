"""`/leaderboard`, `/apply-table`, `/devices`: who wins, and what to install."""

from __future__ import annotations

import json
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request, Response
from pydantic_core import from_json
from sqlalchemy import Connection, func, select

from kernelmill.leaderboard import apply_table, architectures, progress, ranking
from kernelmill.leaderboard.api.context import Reader, Service, TheService
from kernelmill.leaderboard.api.models import (
    ApplyTable,
    DeviceItem,
    Heat,
    HistoryItem,
    Leaderboard,
    Listed,
    Page,
    ProgressItem,
)
from kernelmill.leaderboard.api.replies import (
    UNCHANGED,
    Cursor,
    Filter,
    Limit,
    decode_cursor,
    encode_cursor,
    has,
    page,
    tagged,
)
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.types import now
from kernelmill.leaderboard.errors import Invalid, NotFound
from kernelmill.leaderboard.heat import heat_of
from kernelmill.leaderboard.ranking import By, Edition, Head

router = APIRouter(tags=["leaderboard"], responses=UNCHANGED)


class Wanted(NamedTuple):
    """Which rows of a board."""

    by: By
    definition: str | None
    op_type: str | None
    among: frozenset[str] | None
    start: int
    limit: int


FRESH_S = 60.0


@router.get("/leaderboard", response_model=Leaderboard)
def leaderboard(
    request: Request,
    service: TheService,
    who: Reader,
    device_model: Filter = None,
    definition: Filter = None,
    op_type: Filter = None,
    serves: Annotated[
        str | None, Query(max_length=255, description="Only the definitions that this model of the catalogue calls.")
    ] = None,
    edition: Filter = None,
    by: Annotated[By | None, Query(description="Left out: solution where a definition is given, else author.")] = None,
    cursor: Annotated[Cursor, Query(description="Needs device_model.")] = None,
    limit: Limit = 50,
) -> Response:
    """One board a device model.

    With `definition` its rows are solutions; without, authors or languages over the edition's whole list, or with
    by=solution one row a definition: its leader and what the best mix of all solutions gains.
    """
    kind: By = by or ("solution" if definition is not None else "author")
    place = decode_cursor(cursor, [int])
    if place is not None and device_model is None:
        raise Invalid("cursor", "a page is of one board; give device_model, too")
    start = max(0, place[0]) if place else 0
    among = None if serves is None else architectures.calls(serves)
    with service.database.read() as connection:
        found = ranking.edition(connection, edition)
        heads = ranking.heads(connection, found.id, device_model=device_model, definition=definition, op_type=op_type)
        heads = [head for head in heads if among is None or head.definition in among]
        wanted = Wanted(kind, definition, op_type, among, start, limit)
        tag = ranking.tag([found, wanted, heads, _reports_version(connection)])
        if has(request, tag):
            return tagged(request, b"", tag=tag)
        body = service.told.get(tag, lambda: _told(service, connection, found, heads, wanted))
    return tagged(request, body, tag=tag)


@router.get("/leaderboard/history", response_model=Page[HistoryItem])
def history(
    request: Request,
    service: TheService,
    who: Reader,
    definition: Annotated[str, Query(max_length=255)],
    device_model: Filter = None,
    edition: Filter = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """A board over time: its leader and its best mix, each time that one of them changed."""
    after = decode_cursor(cursor, [int])
    with service.database.read() as connection:
        found = ranking.edition(connection, edition)
        rows = ranking.history(connection, found.id, definition, device_model, after[0] if after else 0, limit + 1)
    items = [json.dumps(row) for _, row in rows[:limit]]
    return tagged(request, page(items, [rows[limit - 1][0]] if len(rows) > limit else None))


@router.get("/definitions/{name}/ratios", response_model=Heat)
def ratios(
    request: Request,
    service: TheService,
    who: Reader,
    name: str,
    device_model: Annotated[str, Query(max_length=255)],
    limit: Annotated[int | None, Query(ge=1, le=500, description="Only so many solutions, the best.")] = None,
) -> Response:
    """Every solution on every public workload, on one device model, with the least bytes and operations of a call."""
    with service.database.read() as connection:
        found = ranking.edition(connection, None)
        heads = ranking.heads(connection, found.id, device_model=device_model, definition=name)
        if not heads:
            raise NotFound(f"nothing of {name!r} was judged on {device_model!r}")
        body = service.heat.get((found.id, heads[0], limit), lambda: _heat(service, connection, found, heads[0], limit))
    return tagged(request, body)


@router.get("/authors/{name}/progress", response_model=Listed[ProgressItem])
def author_progress(
    request: Request, service: TheService, who: Reader, name: str, device_model: Annotated[str, Query(max_length=255)]
) -> Response:
    """An author's way up on one device model: each kernel that became their best on a definition, oldest first."""
    with service.database.read() as connection:
        if connection.scalar(select(t.Author.id).where(t.Author.name == name)) is None:
            raise NotFound(f"there is no author {name!r}")
        found = ranking.edition(connection, None)
        heads = ranking.heads(connection, found.id, device_model=device_model)
        items = progress.steps(service.progress, connection, found.id, heads, name)
    return tagged(request, json.dumps({"items": items}))


@router.get("/apply-table", response_model=ApplyTable)
def get_apply_table(
    request: Request,
    service: TheService,
    who: Reader,
    device_model: Filter = None,
    arch: Annotated[str | None, Query(max_length=255, description="As traces name it: sm_90, x86_64.")] = None,
    definition: Filter = None,
    fingerprint: Annotated[
        str | None, Query(max_length=64, description="Only what was judged with exactly these libraries.")
    ] = None,
) -> Response:
    """What a serving host could install, workload by workload: solutions that are surely faster than the baseline."""
    with service.database.read() as connection:
        found = ranking.edition(connection, None)
        heads = ranking.heads(connection, found.id, device_model=device_model, definition=definition)
        rows: list[dict[str, Any]] = []
        for head in heads:
            rows += service.applied.get(
                (found.id, head),
                lambda head=head: apply_table.rows(
                    connection, service.ranking.summaries(connection, found.id, [head])[0], head
                ),  # type: ignore[misc]
            )
    wanted = [
        row
        for row in rows
        if (arch is None or row["arch"] == arch) and (fingerprint is None or row["fingerprint"] == fingerprint)
    ]
    return tagged(request, json.dumps({"edition": found.name, "items": wanted}))


@router.get("/devices", response_model=Listed[DeviceItem])
def devices(request: Request, service: TheService, who: Reader) -> Response:
    """Device models that judge, or have judged."""
    own = t.Device
    queued = (
        select(func.count())
        .where(t.Submission.state == "queued", t.Submission.device_model == own.model)
        .scalar_subquery()
    )
    with service.database.read() as connection:
        rows = connection.execute(
            select(own.model, own.kind, own.arch, own.libs, own.seen_at, queued.label("queued")).order_by(own.model)
        ).all()
    items = [
        {
            "model": row.model,
            "kind": row.kind,
            "arch": row.arch,
            "libs": json.loads(row.libs),
            "is_judging": row.seen_at is not None and (now() - row.seen_at).total_seconds() < FRESH_S,
            "queued": row.queued,
        }
        for row in rows
    ]
    return tagged(request, json.dumps({"items": items}))


def _told(service: Service, connection: Connection, edition: Edition, heads: list[Head], wanted: Wanted) -> bytes:
    """The whole reply."""
    groups: dict[str, list[Head]] = {}
    for head in heads:
        groups.setdefault(head.device_model, []).append(head)
    body = {
        "edition": edition.name,
        "is_open": edition.is_open,
        "by": wanted.by,
        "definition": wanted.definition,
    }
    boards = [_board(service, connection, edition, group, wanted) for group in groups.values()]
    return _with(body, "boards", boards).encode()


def _board(
    service: Service,
    connection: Connection,
    edition: Edition,
    heads: list[Head],
    wanted: Wanted,
) -> str:
    """One device model's part of the reply."""
    extra: dict[str, Any] = {}
    start, end = wanted.start, wanted.start + wanted.limit
    if wanted.by == "solution" and wanted.definition is not None:
        board = service.ranking.board(connection, edition.id, heads[0], end)
        extra, size = board["summary"], len(board["entries"])
        rows = _with_reports(connection, wanted.definition, board["entries"].lines(start, end))
    else:
        every = _rows(service, connection, edition, heads, wanted)
        rows, size = [_compact(row) for row in every[start:end]], len(every)
    head = {
        "device_model": heads[0].device_model,
        "definitions": len(heads),
        "updated_at": max(head.updated_at for head in heads),
        "next": encode_cursor([end]) if size > end else None,
        **extra,
    }
    return _with(head, "rows", rows)


def _rows(
    service: Service, connection: Connection, edition: Edition, heads: list[Head], wanted: Wanted
) -> list[dict[str, Any]]:
    """Of a board over the whole list."""
    if wanted.by != "solution":
        return service.ranking.standings(connection, edition.id, heads, wanted.by, wanted.op_type, wanted.among)
    summaries = service.ranking.summaries(connection, edition.id, heads)
    return [_line(head, summary) for head, summary in zip(heads, summaries, strict=True)]


def _line(head: Head, summary: dict[str, Any]) -> dict[str, Any]:
    kept = {name: summary[name] for name in ("leader", "baseline", "solutions", "workloads")}
    return {"definition": head.definition, "op_type": head.op_type, "best_mix": summary["best_mix"]["speedup"], **kept}


def _with_reports(connection: Connection, definition: str, lines: list[str]) -> list[str]:
    """Each line with what serving hosts told of its solution. Few are ever told of, and only theirs are read."""
    told = ranking.reports(connection, definition)
    return [_with_report(line, told) if told else f'{line[:-1]},"reports":{{}}}}' for line in lines]


def _with_report(line: str, told: dict[str, dict[str, int]]) -> str:
    row = from_json(line)
    return _compact({**row, "reports": told.get(row["solution_hash"], {})})


def _with(head: dict[str, Any], name: str, items: list[str]) -> str:
    """`head` with a list at its end, whose items are JSON already."""
    return f'{_compact(head)[:-1]},"{name}":[{",".join(items)}]}}'


def _compact(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


def _reports_version(connection: Connection) -> int:
    return connection.scalar(select(func.max(t.Report.id))) or 0


def _heat(service: Service, connection: Connection, edition: Edition, head: Head, limit: int | None) -> str:
    board = service.ranking.board(connection, edition.id, head, limit)
    heat = heat_of(connection, edition.id, head, board, end=limit)
    if heat is None:
        raise NotFound(f"{head.definition} is no longer measured")
    return json.dumps(heat, separators=(",", ":"))
