"""The embedded database, copied while it is in use and put back. PostgreSQL has pg_dump (docs/service.md)."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from kernelmill.leaderboard.db.engine import Database
from kernelmill.trace_schema.errors import InternalError

BESIDE = ("", "-wal", "-shm", "-journal")
"""SQLite reads these beside a database; one that is left of another database would be replayed into it."""


def back_up(database: Database, file: Path) -> None:
    """A whole, consistent copy; the service goes on meanwhile. Raises InternalError."""
    if not database.is_sqlite:
        raise InternalError("this is for the embedded database; use pg_dump --format=custom, as docs/service.md shows")
    if file.exists():
        raise InternalError(f"{file} exists already; name another file")
    with os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as written:
        try:
            # Not through the engine: it begins a transaction, and VACUUM can't be in one.
            with closing(database.engine.raw_connection()) as connection:
                connection.cursor().execute("vacuum into ?", (str(file),))
        except sqlite3.Error as error:
            file.unlink()
            raise InternalError(f"no backup was made at {file} ({error})") from error
        os.fsync(written.fileno())


def restore(file: Path, target: Path) -> None:
    """Put a backup where there is no database: all of it appears at once, or nothing. Raises InternalError."""
    _check(file)
    for name in (f"{target}{end}" for end in BESIDE):
        if Path(name).exists():
            raise InternalError(f"{name} exists; stop the service and move it away, then restore")
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    half = target.with_name(f"{target.name}.restoring")
    half.unlink(missing_ok=True)
    with file.open("rb") as source, os.fdopen(os.open(half, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as copy:
        shutil.copyfileobj(source, copy)
        copy.flush()
        os.fsync(copy.fileno())
    half.rename(target)


def _check(file: Path) -> None:
    """Raises InternalError for what is no whole database of this service."""
    if not file.is_file():
        raise InternalError(f"there is no file {file}")
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            found = connection.execute("pragma integrity_check").fetchone()[0]
            connection.execute("select version_num from alembic_version")
    except sqlite3.Error as error:
        raise InternalError(f"{file} is no backup of this service ({error})") from error
    if found != "ok":
        raise InternalError(f"{file} is damaged ({found}); take another backup")
