"""Bring a database to the newest form: `alembic upgrade head`, called from code."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from kernelmill.leaderboard.db.engine import Database
from kernelmill.trace_schema.errors import InternalError

FOLDER = Path(__file__).parent / "migrations"
LOCK = 7_202_311  # any number: two processes that start at once must not both migrate


def migrate(database: Database) -> None:
    """Safe to run at every start, by several processes at once."""
    with database.write() as connection:
        if not database.is_sqlite:
            connection.exec_driver_sql(f"select pg_advisory_xact_lock({LOCK})")
        command.upgrade(_config(connection), "head")


def check(database: Database) -> None:
    """Raises InternalError if the database is not in the form that this version works with."""
    newest = ScriptDirectory(str(FOLDER)).get_current_head()
    with database.read() as connection:
        found = MigrationContext.configure(connection).get_current_revision()
    if found != newest:
        raise InternalError(
            f"the database is at revision {found or 'none'} and this version needs {newest}; "
            "run: kernelmill admin migrate"
        )


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
