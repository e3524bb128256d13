"""Brings the index up to date with the files: what is unchanged is not read, what only grew is read from its old end.

That a file only grew is not guessed: a digest of the part already indexed is compared, so an edit in the middle of a
file that also grew is seen. A file changed within the last tenth of a second is looked at again next time, because a
second change in the same tick of the file system's clock would leave the same stamp.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from kernelmill.dataset.problems import Problem
from kernelmill.dataset.scan import Progress, read_document, read_lines
from kernelmill.dataset.tree import Stamp

_TICK_NS = 100_000_000
_CHUNK = 1 << 20
_WRITER_TIMEOUT_S = 1.0


class _Known(NamedTuple):
    id: int
    stamp: Stamp | None
    """None where the file may have changed again without its stamp showing it."""
    end: int
    lines: int
    digest: bytes


class _Change(NamedTuple):
    path: str
    known: _Known | None
    stamp: Stamp
    settled: bool


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Holds the index's write lock: of several processes one reads a changed file and the others wait for it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.rollback()
        raise
    connection.execute("COMMIT")


def refresh(
    connection: sqlite3.Connection, root: Path, found: dict[str, Stamp], asked: Collection[str] | None = None
) -> None:
    """Makes the index say what the files say. `found` holds all files, or those of `asked` that still exist."""
    if not any(_differences(connection, found, asked)):
        return
    with transaction(connection):
        changed, gone = _differences(connection, found, asked)
        for known in gone:
            _forget(connection, known.id)
        for path, before in changed.items():
            _read(connection, root, path, before, found[path])


def _differences(
    connection: sqlite3.Connection, found: dict[str, Stamp], asked: Collection[str] | None
) -> tuple[dict[str, _Known | None], list[_Known]]:
    columns = "SELECT path, id, settled, size, mtime_ns, ctime_ns, inode, end, lines, digest FROM file"
    if asked is None:
        rows = list(connection.execute(columns))
    else:
        rows = [row for path in asked for row in connection.execute(columns + " WHERE path = ?", (path,))]
    known = {row[0]: _Known(row[1], Stamp(*row[3:7]) if row[2] else None, *row[7:]) for row in rows}
    changed = {
        path: known.get(path) for path, stamp in found.items() if path not in known or known[path].stamp != stamp
    }
    return changed, [each for path, each in known.items() if path not in found]


def _forget(connection: sqlite3.Connection, file: int) -> None:
    for table in ("line", "document", "holds", "problem"):
        connection.execute(f"DELETE FROM {table} WHERE file = ?", (file,))
    connection.execute("DELETE FROM file WHERE id = ?", (file,))


def _read(connection: sqlite3.Connection, root: Path, path: str, known: _Known | None, seen: Stamp) -> None:
    try:
        stream = (root / path).open("rb")
    except FileNotFoundError:
        return
    except OSError as error:
        file = _replace(connection, _Change(path, known, seen, settled=False))
        problem = Problem(path, None, "$", f"cannot be read: {error.strerror}", "check its permissions")
        _store_problems(connection, file, [problem])
        return
    with stream:
        stamp = _stamp(stream, path)
        if known and known.stamp == stamp:  # another process was faster
            return
        change = _Change(path, known, stamp, settled=time.time_ns() - stamp.ctime_ns > _TICK_NS)
        if path.endswith(".json"):
            _read_document(connection, change, stream.read())
        else:
            _read_lines(connection, change, stream)


def _stamp(stream: BinaryIO, path: str) -> Stamp:
    """The file's stamp at a moment when nobody is in the middle of a line: whoever appends holds the file's lock."""
    stamp, deadline = Stamp.of(os.fstat(stream.fileno())), time.monotonic() + _WRITER_TIMEOUT_S
    if path.endswith(".json") or not stamp.size or os.pread(stream.fileno(), 1, stamp.size - 1) == b"\n":
        return stamp
    while time.monotonic() < deadline:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.001)
        except OSError:  # a file system without locks
            break
        else:
            stamp = Stamp.of(os.fstat(stream.fileno()))
            fcntl.flock(stream, fcntl.LOCK_UN)
            break
    return stamp


def _replace(connection: sqlite3.Connection, change: _Change) -> int:
    """A new id for a file whose old rows no longer hold: who has the old id finds nothing, not something wrong."""
    if change.known:
        _forget(connection, change.known.id)
    parts = change.path.split("/")
    author = parts[1] if parts[0] == "traces" and len(parts) == 4 else None
    cursor = connection.execute(
        "INSERT INTO file (path, author, settled, size, mtime_ns, ctime_ns, inode, end, lines, digest) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, x'')",
        (change.path, author, change.settled, *change.stamp),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _read_document(connection: sqlite3.Connection, change: _Change, data: bytes) -> None:
    file = _replace(connection, change)
    document = read_document(change.path, data)
    if isinstance(document, list):
        _store_problems(connection, file, document)
    else:
        kind = change.path.partition("/")[0]
        connection.execute("INSERT INTO document VALUES (?, ?, ?, ?, ?, ?)", (file, kind, *document))


def _read_lines(connection: sqlite3.Connection, change: _Change, stream: BinaryIO) -> None:
    progress, problems = Progress(), list[Problem]()
    if change.known and _begins_as_before(stream, change.stamp, change.known, progress):
        file = change.known.id
        connection.execute("DELETE FROM line WHERE file = ? AND offset >= ?", (file, progress.end))
        connection.execute("DELETE FROM problem WHERE file = ? AND line > ?", (file, progress.lines))
    else:
        progress = Progress()
        file = _replace(connection, change)
    for rows in read_lines(stream, change.stamp.size, progress, file, change.path, problems):
        connection.executemany("INSERT INTO line VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    _store_problems(connection, file, problems)
    connection.execute("DELETE FROM holds WHERE file = ?", (file,))
    connection.execute(
        "INSERT INTO holds SELECT definition, file, sum(verdict IS NULL), sum(verdict IS NOT NULL) "
        "FROM line WHERE file = ? GROUP BY definition",
        (file,),
    )
    connection.execute(
        "UPDATE file SET settled = ?, size = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, end = ?, lines = ?, digest = ? "
        "WHERE id = ?",
        (change.settled, *change.stamp, progress.end, progress.lines, progress.digest.digest(), file),
    )


def _begins_as_before(stream: BinaryIO, stamp: Stamp, known: _Known, progress: Progress) -> bool:
    """Whether the part already indexed is unchanged; then `progress` stands at its end."""
    if stamp.size < known.end:
        return False
    while (missing := known.end - progress.end) and (chunk := stream.read(min(missing, _CHUNK))):
        progress.digest.update(chunk)
        progress.end += len(chunk)
    progress.lines = known.lines
    return progress.end == known.end and bool(progress.digest.digest() == known.digest)


def _store_problems(connection: sqlite3.Connection, file: int, problems: list[Problem]) -> None:
    rows = [(file, problem.line, problem.path, problem.reason, problem.advice) for problem in problems]
    connection.executemany("INSERT INTO problem VALUES (?, ?, ?, ?, ?)", rows)
