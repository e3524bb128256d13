"""Insert a row unless it is there: the one statement that SQLite and PostgreSQL have each for themselves."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, literal
from sqlalchemy.dialects import postgresql, sqlite

from kernelmill.leaderboard.db.tables import Base


def insert_new(connection: Connection, table: type[Base], row: dict[str, Any]) -> bool:
    """Insert it unless a row with one of its unique keys is there; whether it was new.

    On PostgreSQL it waits for another transaction that is about to insert the same.
    """
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table).on_conflict_do_nothing().returning(literal(1))
    return connection.execute(statement, row).first() is not None  # beside the statement: building that costs more
