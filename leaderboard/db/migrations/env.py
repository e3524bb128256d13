"""Alembic's entry: the connection is the caller's, and so is the transaction."""

from __future__ import annotations

from alembic import context

from kernelmill.leaderboard.db.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    compare_type=True,
    render_as_batch=True,
)
context.run_migrations()
