"""A database, opened: reads, writes, and what went wrong in words that leak nothing.

A write on SQLite takes the lock when it begins (BEGIN IMMEDIATE), so it can't fail half-way for want of it. A commit
is on the disk when it returns (SQLite: synchronous=FULL; PostgreSQL: its default).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from kernelmill.trace_schema.errors import InternalError

BUSY_S = 30.0
"""How long a connection waits for SQLite's write lock, or to reach PostgreSQL."""
POOL = 20


class DatabaseUnreachable(InternalError):
    """It does not answer; what was asked for may or may not have happened."""


class Database:
    """One engine for this process; connections are pooled and may be used from any thread."""

    def __init__(self, url: str) -> None:
        self.url = _normal(url)
        self.engine = _engine(self.url)
        self._turn = threading.Lock()

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection on which, in SQLite, all queries see one state of things. Raises DatabaseUnreachable.

        PostgreSQL's see what was committed when each began, in a transaction or not; without one nothing is begun and
        rolled back over the network.
        """
        with _named(self.url), self.engine.connect() as connection:
            yield connection if self.is_sqlite else connection.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction, kept whole or not at all. Raises DatabaseUnreachable."""
        with self._in_turn(), _named(self.url), self.engine.connect() as plain:
            connection = plain.execution_options(write=True)
            with connection.begin():
                yield connection

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        """Writers of one process wait for SQLite's lock here: SQLite has them sleep and look again, ever longer."""
        if not self.is_sqlite:
            yield
            return
        if not self._turn.acquire(timeout=BUSY_S):
            raise DatabaseUnreachable(f"{self.url.get_backend_name()} does not answer (others write for {BUSY_S:g} s)")
        try:
            yield
        finally:
            self._turn.release()

    def ping(self) -> None:
        with self.read() as connection:
            connection.execute(text("select 1"))

    def close(self) -> None:
        self.engine.dispose()


def sqlite_file(url: str) -> Path:
    """The file of the embedded database. Raises InternalError where it has none."""
    parsed = _normal(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        raise InternalError(f"{parsed.get_backend_name()} has no file to restore; docs/service.md shows pg_restore")
    return Path(str(parsed.database)).absolute()


def _normal(url: str) -> URL:
    """`postgresql://` means psycopg 3. Raises InternalError for what is no database URL."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise InternalError(
            "the database URL cannot be read; write sqlite:////path/to/file.db or postgresql://user@host/name"
        ) from None
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise InternalError(f"the database {parsed.get_backend_name()!r} is not supported; use sqlite or postgresql")
    return parsed


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "postgresql":
        engine = create_engine(
            url, pool_size=POOL, max_overflow=POOL, pool_pre_ping=True, connect_args={"connect_timeout": int(BUSY_S)}
        )
        event.listen(engine, "connect", _compress_fast)
        return engine
    if url.database and url.database != ":memory:":
        Path(url.database).expanduser().absolute().parent.mkdir(parents=True, exist_ok=True)
        _keep_private(Path(url.database).expanduser())
    engine = create_engine(url, pool_size=POOL, max_overflow=POOL, connect_args={"timeout": BUSY_S})
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _compress_fast(connection: Any, _record: Any) -> None:
    """Large texts are packed by LZ4 where this server has it, which takes less time than its default."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select set_config('default_toast_compression', 'lz4', false) from pg_settings "
            "where name = 'default_toast_compression' and 'lz4' = any(enumvals)"
        )
    connection.commit()


def _keep_private(path: Path) -> None:
    """Hidden workloads and hashes of tokens are in it."""
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))


def _prepare(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver would begin on its own, later than we ask
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    writing = connection.get_execution_options().get("write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


@contextmanager
def _named(url: URL) -> Iterator[None]:
    """A database that is away is one kind of trouble, whichever driver says so. Never tells the password."""
    try:
        yield
    except OperationalError as error:
        raise DatabaseUnreachable(f"{url.get_backend_name()} does not answer ({type(error.orig).__name__})") from error
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        raise DatabaseUnreachable(f"the connection to {url.get_backend_name()} was lost") from error
