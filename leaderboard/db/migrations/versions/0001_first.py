"""The first form of the database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from kernelmill.leaderboard.db import types

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("id", types.Serial, autoincrement=True, nullable=False),
        sa.Column("at", types.Moment(), nullable=False),
        sa.Column("actor", sa.String(length=255), nullable=False),
        sa.Column("action", sa.String(length=255), nullable=False),
        sa.Column("target", sa.String(length=255), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "authors",
        sa.Column("id", types.Serial, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("model", sa.String(length=255), nullable=True),
        sa.Column("harness", sa.String(length=255), nullable=True),
        sa.Column("subject", sa.String(length=255), nullable=True),
        sa.Column("banned_at", types.Moment(), nullable=True),
        sa.Column("created_at", types.Moment(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        sa.UniqueConstraint("subject"),
    )
    op.create_table(
        "definitions",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("op_type", sa.String(length=255), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("origin", sa.String(length=16), nullable=False),
        sa.Column("is_current", sa.Boolean(), nullable=False),
        sa.Column("created_at", types.Moment(), nullable=False),
        sa.PrimaryKeyConstraint("name", "hash"),
    )
    op.create_index(op.f("ix_definitions_is_current"), "definitions", ["is_current"], unique=False)
    op.create_index(op.f("ix_definitions_op_type"), "definitions", ["op_type"], unique=False)
    op.create_table(
        "devices",
        sa.Column("model", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("arch", sa.String(length=255), nullable=True),
        sa.Column("libs", sa.Text(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("seen_at", types.Moment(), nullable=True),
        sa.PrimaryKeyConstraint("model"),
    )
    op.create_table(
        "editions",
        sa.Column("id", types.Serial, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("is_open", sa.Boolean(), nullable=False),
        sa.Column("created_at", types.Moment(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "workloads",
        sa.Column("id", types.Serial, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=255), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("definition", sa.String(length=255), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("split", sa.String(length=255), nullable=False),
        sa.Column("weight", sa.Float(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("origin", sa.String(length=16), nullable=False),
        sa.Column("is_current", sa.Boolean(), nullable=False),
        sa.Column("created_at", types.Moment(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_workloads_definition_current", "workloads", ["definition", "is_current", "position"], unique=False
    )
    op.create_index(op.f("ix_workloads_uuid"), "workloads", ["uuid"], unique=False)
    op.create_table(
        "boards",
        sa.Column("edition_id", types.Serial, nullable=False),
        sa.Column("device_model", sa.String(length=255), nullable=False),
        sa.Column("definition", sa.String(length=255), nullable=False),
        sa.Column("op_type", sa.String(length=255), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("is_stale", sa.Boolean(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("top", sa.Text(), nullable=False),
        sa.Column("rest", sa.Text(), nullable=False),
        sa.Column("authors", sa.Text(), nullable=False),
        sa.Column("languages", sa.Text(), nullable=False),
        sa.Column("updated_at", types.Moment(), nullable=False),
        sa.ForeignKeyConstraint(
            ["edition_id"],
            ["editions.id"],
        ),
        sa.PrimaryKeyConstraint("edition_id", "device_model", "definition"),
    )
    op.create_index(
        "ix_boards_stale",
        "boards",
        ["edition_id"],
        unique=False,
        sqlite_where=sa.text("is_stale"),
        postgresql_where=sa.text("is_stale"),
    )
    op.create_table(
        "history",
        sa.Column("id", types.Serial, autoincrement=True, nullable=False),
        sa.Column("edition_id", types.Serial, nullable=False),
        sa.Column("device_model", sa.String(length=255), nullable=False),
        sa.Column("definition", sa.String(length=255), nullable=False),
        sa.Column("at", types.Moment(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["edition_id"],
            ["editions.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_history_board", "history", ["edition_id", "device_model", "definition", "id"], unique=False)
    op.create_table(
        "proposals",
        sa.Column("id", types.Serial, autoincrement=True, nullable=False),
        sa.Column("author_id", types.Serial, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("definition", sa.String(length=255), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("decided_by", sa.String(length=255), nullable=True),
        sa.Column("created_at", types.Moment(), nullable=False),
        sa.ForeignKeyConstraint(
            ["author_id"],
            ["authors.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "quotas",
        sa.Column("id", types.Serial, autoincrement=True, nullable=False),
        sa.Column("author_id", types.Serial, nullable=True),
        sa.Column("device_model", sa.String(length=255), nullable=True),
        sa.Column("per_hour", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["author_id"],
            ["authors.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("author_id", "device_model"),
    )
    op.create_table(
        "replies",
        sa.Column("author_id", types.Serial, nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("request", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", types.Moment(), nullable=False),
        sa.ForeignKeyConstraint(
            ["author_id"],
            ["authors.id"],
        ),
        sa.PrimaryKeyConstraint("author_id", "key"),
    )
    op.create_table(
        "solutions",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("definition", sa.String(length=255), nullable=False),
        sa.Column("author_id", types.Serial, nullable=False),
        sa.Column("language", sa.String(length=255), nullable=False),
        sa.Column("is_baseline", sa.Boolean(), nullable=False),
        sa.Column("derived_from", sa.String(length=255), nullable=True),
        sa.Column("likeness", sa.Float(), nullable=True),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("is_public", sa.Boolean(), nullable=False),
        sa.Column("hidden_at", types.Moment(), nullable=True),
        sa.Column("created_at", types.Moment(), nullable=False),
        sa.ForeignKeyConstraint(
            ["author_id"],
            ["authors.id"],
        ),
        sa.PrimaryKeyConstraint("hash"),
        sa.UniqueConstraint("name"),
    )
    op.create_index(op.f("ix_solutions_author_id"), "solutions", ["author_id"], unique=False)
    op.create_index(op.f("ix_solutions_definition"), "solutions", ["definition"], unique=False)
    op.create_table(
        "tokens",
        sa.Column("id", types.Serial, autoincrement=True, nullable=False),
        sa.Column("author_id", types.Serial, nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("scopes", sa.String(length=255), nullable=False),
        sa.Column("created_at", types.Moment(), nullable=False),
        sa.Column("expires_at", types.Moment(), nullable=True),
        sa.Column("revoked_at", types.Moment(), nullable=True),
        sa.ForeignKeyConstraint(
            ["author_id"],
            ["authors.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("hash"),
    )
    op.create_index(op.f("ix_tokens_author_id"), "tokens", ["author_id"], unique=False)
    op.create_table(
        "turns",
        sa.Column("author_id", types.Serial, nullable=False),
        sa.Column("served_at", types.Moment(), nullable=False),
        sa.ForeignKeyConstraint(
            ["author_id"],
            ["authors.id"],
        ),
        sa.PrimaryKeyConstraint("author_id"),
    )
    op.create_table(
        "reports",
        sa.Column("id", types.Serial, autoincrement=True, nullable=False),
        sa.Column("author_id", types.Serial, nullable=False),
        sa.Column("solution_hash", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("created_at", types.Moment(), nullable=False),
        sa.ForeignKeyConstraint(
            ["author_id"],
            ["authors.id"],
        ),
        sa.ForeignKeyConstraint(
            ["solution_hash"],
            ["solutions.hash"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_reports_solution_hash"), "reports", ["solution_hash"], unique=False)
    op.create_table(
        "shares",
        sa.Column("edition_id", types.Serial, nullable=False),
        sa.Column("definition", sa.String(length=255), nullable=False),
        sa.Column("device_model", sa.String(length=255), nullable=False),
        sa.Column("solution_hash", sa.String(length=64), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("is_stale", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["edition_id"],
            ["editions.id"],
        ),
        sa.ForeignKeyConstraint(
            ["solution_hash"],
            ["solutions.hash"],
        ),
        sa.PrimaryKeyConstraint("edition_id", "definition", "device_model", "solution_hash"),
    )
    op.create_index(op.f("ix_shares_solution_hash"), "shares", ["solution_hash"], unique=False)
    op.create_table(
        "submissions",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("author_id", types.Serial, nullable=False),
        sa.Column("solution_hash", sa.String(length=64), nullable=False),
        sa.Column("solution_name", sa.String(length=255), nullable=False),
        sa.Column("definition", sa.String(length=255), nullable=False),
        sa.Column("definition_hash", sa.String(length=64), nullable=False),
        sa.Column("edition_id", types.Serial, nullable=False),
        sa.Column("device_model", sa.String(length=255), nullable=True),
        sa.Column("device_kind", sa.String(length=16), nullable=True),
        sa.Column("workload_uuids", sa.Text(), nullable=True),
        sa.Column("is_ranked", sa.Boolean(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("expected", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("holder", sa.String(length=255), nullable=True),
        sa.Column("lease_until", types.Moment(), nullable=True),
        sa.Column("not_before", types.Moment(), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("duplicate_of", sa.String(length=32), nullable=True),
        sa.Column("created_at", types.Moment(), nullable=False),
        sa.Column("started_at", types.Moment(), nullable=True),
        sa.Column("ended_at", types.Moment(), nullable=True),
        sa.ForeignKeyConstraint(
            ["author_id"],
            ["authors.id"],
        ),
        sa.ForeignKeyConstraint(
            ["duplicate_of"],
            ["submissions.id"],
        ),
        sa.ForeignKeyConstraint(
            ["edition_id"],
            ["editions.id"],
        ),
        sa.ForeignKeyConstraint(
            ["solution_hash"],
            ["solutions.hash"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_submissions_author_created", "submissions", ["author_id", "created_at"], unique=False)
    op.create_index(op.f("ix_submissions_duplicate_of"), "submissions", ["duplicate_of"], unique=False)
    op.create_index(op.f("ix_submissions_lease_until"), "submissions", ["lease_until"], unique=False)
    op.create_index(
        "ix_submissions_queue", "submissions", ["state", "device_model", "priority", "created_at"], unique=False
    )
    op.create_index(op.f("ix_submissions_solution_hash"), "submissions", ["solution_hash"], unique=False)
    op.create_index("ix_submissions_state_ended", "submissions", ["state", "ended_at"], unique=False)
    op.create_table(
        "events",
        sa.Column("id", types.Serial, autoincrement=True, nullable=False),
        sa.Column("submission_id", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("at", types.Moment(), nullable=False),
        sa.ForeignKeyConstraint(
            ["submission_id"],
            ["submissions.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_events_submission", "events", ["submission_id", "id"], unique=False)
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("device_model", sa.String(length=255), nullable=False),
        sa.Column("judge_version", sa.String(length=32), nullable=True),
        sa.Column("sandbox", sa.String(length=255), nullable=True),
        sa.Column("submission_id", sa.String(length=32), nullable=True),
        sa.Column("started_at", types.Moment(), nullable=False),
        sa.ForeignKeyConstraint(
            ["submission_id"],
            ["submissions.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_sessions_device_model"), "sessions", ["device_model"], unique=False)
    op.create_table(
        "traces",
        sa.Column("id", types.Serial, autoincrement=True, nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("submission_id", sa.String(length=32), nullable=True),
        sa.Column("solution_hash", sa.String(length=64), nullable=False),
        sa.Column("author_id", types.Serial, nullable=False),
        sa.Column("definition", sa.String(length=255), nullable=False),
        sa.Column("workload_uuid", sa.String(length=255), nullable=False),
        sa.Column("device_model", sa.String(length=255), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("verdict", sa.String(length=32), nullable=False),
        sa.Column("session", sa.String(length=255), nullable=True),
        sa.Column("is_hidden", sa.Boolean(), nullable=False),
        sa.Column("is_ranked", sa.Boolean(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", types.Moment(), nullable=False),
        sa.ForeignKeyConstraint(
            ["author_id"],
            ["authors.id"],
        ),
        sa.ForeignKeyConstraint(
            ["solution_hash"],
            ["solutions.hash"],
        ),
        sa.ForeignKeyConstraint(
            ["submission_id"],
            ["submissions.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest"),
        sa.UniqueConstraint("submission_id", "workload_uuid"),
    )
    op.create_index("ix_traces_author", "traces", ["author_id", "id"], unique=False)
    op.create_index("ix_traces_definition", "traces", ["definition", "device_model", "id"], unique=False)
    op.create_index("ix_traces_solution", "traces", ["solution_hash", "device_model", "id"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_traces_solution", table_name="traces")
    op.drop_index("ix_traces_definition", table_name="traces")
    op.drop_index("ix_traces_author", table_name="traces")
    op.drop_table("traces")
    op.drop_index(op.f("ix_sessions_device_model"), table_name="sessions")
    op.drop_table("sessions")
    op.drop_index("ix_events_submission", table_name="events")
    op.drop_table("events")
    op.drop_index(op.f("ix_submissions_solution_hash"), table_name="submissions")
    op.drop_index("ix_submissions_queue", table_name="submissions")
    op.drop_index(op.f("ix_submissions_lease_until"), table_name="submissions")
    op.drop_index(op.f("ix_submissions_duplicate_of"), table_name="submissions")
    op.drop_index("ix_submissions_author_created", table_name="submissions")
    op.drop_table("submissions")
    op.drop_index(op.f("ix_shares_solution_hash"), table_name="shares")
    op.drop_table("shares")
    op.drop_index(op.f("ix_reports_solution_hash"), table_name="reports")
    op.drop_table("reports")
    op.drop_table("turns")
    op.drop_index(op.f("ix_tokens_author_id"), table_name="tokens")
    op.drop_table("tokens")
    op.drop_index(op.f("ix_solutions_definition"), table_name="solutions")
    op.drop_index(op.f("ix_solutions_author_id"), table_name="solutions")
    op.drop_table("solutions")
    op.drop_table("replies")
    op.drop_table("quotas")
    op.drop_table("proposals")
    op.drop_index("ix_history_board", table_name="history")
    op.drop_table("history")
    op.drop_index(
        "ix_boards_stale", table_name="boards", sqlite_where=sa.text("is_stale"), postgresql_where=sa.text("is_stale")
    )
    op.drop_table("boards")
    op.drop_index(op.f("ix_workloads_uuid"), table_name="workloads")
    op.drop_index("ix_workloads_definition_current", table_name="workloads")
    op.drop_table("workloads")
    op.drop_table("editions")
    op.drop_table("devices")
    op.drop_index(op.f("ix_definitions_op_type"), table_name="definitions")
    op.drop_index(op.f("ix_definitions_is_current"), table_name="definitions")
    op.drop_table("definitions")
    op.drop_table("authors")
    op.drop_table("audit")
