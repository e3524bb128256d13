"""The side index: what stands where in a dataset's files, in SQLite in the cache folder. Deleting it loses nothing.

It holds places, never content: a trace is read from its own file. Where the cache is corrupt, locked or not writable,
the same index is built in memory, with a warning: slower to open, never wrong.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import kernelmill
from kernelmill.dataset.problems import Problem
from kernelmill.dataset.refresh import refresh, transaction
from kernelmill.dataset.tree import Stamp, restat, walk
from kernelmill.trace_schema.errors import InternalError

_FORMAT = 2  # raise it when a table or what goes into one changes
_LOCK_TIMEOUT_S = 10.0
_TABLES = (
    "CREATE TABLE file (id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT UNIQUE, author TEXT, settled INTEGER, "
    "size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER, inode INTEGER, end INTEGER, lines INTEGER, digest BLOB)",
    "CREATE TABLE document "
    "(file INTEGER PRIMARY KEY, kind TEXT, name TEXT, definition TEXT, op_type TEXT, author TEXT)",
    "CREATE INDEX document_name ON document (kind, name)",
    "CREATE TABLE line (file INTEGER, offset INTEGER, length INTEGER, line INTEGER, definition TEXT, uuid TEXT, "
    "axes TEXT, solution TEXT, status TEXT, verdict TEXT, device TEXT, ratio REAL, latency_ms REAL, "
    "PRIMARY KEY (file, offset)) WITHOUT ROWID",
    "CREATE INDEX line_axes ON line (definition, verdict, axes)",
    "CREATE TABLE holds "
    "(definition TEXT, file INTEGER, workloads INTEGER, traces INTEGER, PRIMARY KEY (definition, file)) WITHOUT ROWID",
    "CREATE INDEX holds_file ON holds (file)",
    "CREATE TABLE problem (file INTEGER, line INTEGER, path TEXT, reason TEXT, advice TEXT)",
    "CREATE INDEX problem_file ON problem (file)",
    # Of documents with one name the first path counts: SQLite takes the bare columns from the row of the minimum.
    "CREATE VIEW kept AS SELECT d.kind, d.name, d.definition, d.op_type, d.author, min(f.path) AS path "
    "FROM document d JOIN file f ON f.id = d.file GROUP BY d.kind, d.name",
)
_PLACES = "SELECT f.id, f.path, l.offset, l.length, l.line FROM line l JOIN file f ON f.id = l.file"
_SOLUTION_NAMES = "SELECT name FROM kept WHERE kind = 'solutions'"
# A trace's author is its solution's; where that solution is missing, the folder that the trace lies in.
_AUTHOR = (
    f"(l.solution IN ({_SOLUTION_NAMES} AND author = :author) "
    f"OR f.author = :author AND l.solution NOT IN ({_SOLUTION_NAMES}))"
)
_DUPLICATES = (
    "SELECT k.kind, k.name, k.path, f.path FROM kept k JOIN document d ON d.kind = k.kind AND d.name = k.name "
    "JOIN file f ON f.id = d.file WHERE f.path != k.path ORDER BY f.path"
)
_log = logging.getLogger("kernelmill.dataset")
T = TypeVar("T")


class Place(NamedTuple):
    """Where one line lies, in the version of the file that has this id."""

    file: int
    path: str
    offset: int
    length: int
    line: int


class Query(NamedTuple):
    """What a trace must be; None is anything."""

    definition: str | None = None
    solution: str | None = None
    author: str | None = None
    device_model: str | None = None
    status: str | None = None


def index_file(root: Path, cache: Path) -> Path:
    """Where the index of the dataset at the real path `root` is kept; whoever deletes the one deletes the other."""
    name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
    return cache / "index" / f"{name}-{_FORMAT}-{kernelmill.__version__}.sqlite"


class Index:
    """Safe to share between threads; processes share the file behind it."""

    def __init__(self, root: Path, cache: Path) -> None:
        self._root = root
        self._tree_problems: list[Problem] = []
        self._lock = threading.RLock()
        self._closer: weakref.finalize[..., Index] | None = None
        self._file: Path | None = index_file(root, cache)
        self._connect()

    def refresh(self) -> None:
        """Looks at every file of the dataset."""
        problems: list[Problem] = []
        found = walk(self._root, problems)
        self._tree_problems = problems
        self._run(lambda connection: refresh(connection, self._root, found))

    def touch(self, paths: Collection[str]) -> None:
        """Looks at these files only."""
        found = restat(self._root, paths)
        self._run(lambda connection: refresh(connection, self._root, found, paths))

    def names(self, kind: str) -> list[str]:
        return [row[0] for row in self._all("SELECT DISTINCT name FROM document WHERE kind = ? ORDER BY name", (kind,))]

    def document(self, kind: str, name: str) -> str | None:
        """The path of the definition or solution called `name`."""
        rows = self._all("SELECT path FROM kept WHERE kind = ? AND name = ?", (kind, name))
        return rows[0][0] if rows else None

    def documents(self, kind: str, definition: str | None = None) -> list[str]:
        """Paths of all definitions or solutions, or of those of one definition, sorted."""
        sql = "SELECT path FROM kept WHERE kind = ? AND (? IS NULL OR definition = ?) ORDER BY path"
        return [row[0] for row in self._all(sql, (kind, definition, definition))]

    def files(self, definition: str | None, counted: str) -> list[str]:
        """Paths of files that hold `counted` ("workloads" or "traces"), of one definition or of any, sorted."""
        sql = f"SELECT DISTINCT f.path FROM holds h JOIN file f ON f.id = h.file WHERE h.{counted} > 0"
        if definition is None:
            return [row[0] for row in self._all(sql + " ORDER BY f.path", ())]
        return [row[0] for row in self._all(sql + " AND h.definition = ? ORDER BY f.path", (definition,))]

    def groups(self) -> list[tuple[str, str, str | None]]:
        """Every file with each definition and solution that its lines name; the solution of a workload is None."""
        sql = (
            "SELECT DISTINCT f.path, l.definition, l.solution FROM line l JOIN file f ON f.id = l.file ORDER BY 1, 2, 3"
        )
        return [(path, definition, solution) for path, definition, solution in self._all(sql, ())]

    def workloads(self, path: str, definition: str | None) -> list[Place]:
        sql = f"{_PLACES} WHERE f.path = ? AND (? IS NULL OR definition = ?) AND verdict IS NULL ORDER BY offset"
        return [Place(*row) for row in self._all(sql, (path, definition, definition))]

    def traces(self, path: str, query: Query) -> list[Place]:
        where, values = _conditions(query)
        sql = f"{_PLACES} WHERE f.path = :path AND verdict IS NOT NULL{where} ORDER BY offset"
        return [Place(*row) for row in self._all(sql, {**values, "path": path})]

    def best(self, query: Query, axes: str) -> list[Place]:
        """PASSED traces on workloads of these axes: by ratio, those without one after them by latency."""
        where, values = _conditions(query)
        sql = f"{_PLACES} WHERE verdict = 'PASSED' AND axes = :axes"
        order = "ORDER BY ratio IS NULL, ratio DESC, latency_ms IS NULL, latency_ms, f.path, l.offset"
        return [Place(*row) for row in self._all(f"{sql}{where} {order}", {**values, "axes": axes})]

    def holds_for(self, place: Place, status: os.stat_result) -> bool:
        """Whether the file opened is the one that `place` was found in, or that one grown."""
        rows, stamp = self._all("SELECT inode, size FROM file WHERE id = ?", (place.file,)), Stamp.of(status)
        return bool(rows) and rows[0][0] == stamp.inode and rows[0][1] <= stamp.size

    def counts(self) -> dict[str, int]:
        sql = (
            "SELECT (SELECT count(DISTINCT name) FROM document WHERE kind = 'definitions'), "
            "(SELECT count(DISTINCT name) FROM document WHERE kind = 'solutions'), "
            "total(workloads), total(traces) FROM holds"
        )
        names = ("definitions", "solutions", "workloads", "traces")
        return dict(zip(names, map(int, self._all(sql, ())[0]), strict=True))

    def problems(self) -> Iterator[Problem]:
        yield from self._tree_problems
        sql = "SELECT f.path, p.line, p.path, p.reason, p.advice FROM problem p JOIN file f ON f.id = p.file"
        for row in self._all(sql, ()):
            yield Problem(*row)
        for kind, name, kept, path in self._all(_DUPLICATES, ()):
            reason = f"a {kind.removesuffix('s')} called {name!r} stands in {kept} already, which is the one used"
            yield Problem(path, None, "$.name", reason, "rename or delete one of the two")

    def _all(self, sql: str, values: Sequence[Any] | dict[str, Any]) -> list[tuple[Any, ...]]:
        return self._run(lambda connection: connection.execute(sql, values).fetchall())

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            if self._file is not None and os.getpid() != self._process:  # SQLite's connections do not survive a fork
                self._connect()
            try:
                return work(self._connection)
            except sqlite3.Error as error:
                if self._file is None:
                    raise InternalError(f"the index in memory failed: {error}") from error
                self._leave_cache(error)
                return work(self._connection)

    def _connect(self) -> None:
        self._process = os.getpid()
        try:
            if self._file is not None:
                self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._use(_open(self._file))
        except (sqlite3.Error, OSError) as error:
            if self._file is None:
                raise InternalError(f"SQLite cannot make an index in memory: {error}") from error
            self._leave_cache(error)

    def _leave_cache(self, error: Exception) -> None:
        _log.warning(
            "the index %s cannot be used (%s), so the dataset is read anew, which is slower: "
            "delete that file if it is damaged, or set KERNELMILL_CACHE to a writable folder",
            self._file,
            error,
        )
        self._file = None
        self._use(_open(None))
        refresh(self._connection, self._root, walk(self._root, []))

    def _use(self, connection: sqlite3.Connection) -> None:
        if self._closer is not None:
            self._closer()
        self._connection = connection
        self._closer = weakref.finalize(self, _close, connection, os.getpid())


def _open(file: Path | None) -> sqlite3.Connection:
    connection = sqlite3.connect(
        file or ":memory:", timeout=_LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    try:
        # Not WAL, whose shared memory fails without a sign where two hosts share the cache over a network.
        connection.execute("PRAGMA journal_mode = TRUNCATE")
        connection.execute("PRAGMA synchronous = NORMAL")
        if not connection.execute("PRAGMA user_version").fetchone()[0]:
            with transaction(connection):
                if not connection.execute("PRAGMA user_version").fetchone()[0]:
                    for statement in _TABLES:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {_FORMAT}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _close(connection: sqlite3.Connection, process: int) -> None:
    if os.getpid() == process:
        connection.close()


def _conditions(query: Query) -> tuple[str, dict[str, object]]:
    columns = {
        "definition": "l.definition = :definition",
        "solution": "l.solution = :solution",
        "author": _AUTHOR,
        "device_model": "l.device = :device_model",
        "status": "l.status = :status",
    }
    values = {name: value for name, value in query._asdict().items() if value is not None}
    return "".join(f" AND {columns[name]}" for name in values), values
