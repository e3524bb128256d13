"""Every table. JSON documents are stored as the text that was judged, so that nothing is lost on the way.

- catalogue: what is measured (`Edition`, `Definition`, `Workload`); old versions stay.
- people: `Author`, `Token`, `Quota`, `Audit`.
- work: `Solution`, `Submission`, `Event`, `Trace`, `Device`, `Session`, `Reply`.
- ranking: `Share`, `Board`, `History`: all three can be made again from traces.
- from outside: `Proposal`, `Report`.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Boolean, Float, ForeignKey, Index, LargeBinary, String, Text, UniqueConstraint, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from kernelmill.leaderboard.db.types import Moment, Serial, now

NAME = String(255)
HASH = String(64)


class Base(DeclarativeBase):
    """All tables."""


class Edition(Base):
    """A frozen list of definitions, public workloads, baselines and the judge's major version."""

    __tablename__ = "editions"
    id: Mapped[int] = mapped_column(Serial, primary_key=True, autoincrement=True)
    name: Mapped[str] = mapped_column(NAME, unique=True)
    hash: Mapped[str] = mapped_column(HASH)
    body: Mapped[str] = mapped_column(Text)
    is_open: Mapped[bool] = mapped_column(Boolean)
    """Whether new traces count for it; one edition at most is open."""
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)


class Definition(Base):
    __tablename__ = "definitions"
    name: Mapped[str] = mapped_column(NAME, primary_key=True)
    hash: Mapped[str] = mapped_column(HASH, primary_key=True)
    op_type: Mapped[str] = mapped_column(NAME, index=True)
    description: Mapped[str | None] = mapped_column(Text)
    body: Mapped[str] = mapped_column(Text)
    origin: Mapped[str] = mapped_column(String(16))
    """dataset or proposal: a sync retires only what came by a sync"""
    is_current: Mapped[bool] = mapped_column(Boolean, index=True)
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)


class Workload(Base):
    __tablename__ = "workloads"
    __table_args__ = (Index("ix_workloads_definition_current", "definition", "is_current", "position"),)
    id: Mapped[int] = mapped_column(Serial, primary_key=True, autoincrement=True)
    uuid: Mapped[str] = mapped_column(NAME, index=True)
    hash: Mapped[str] = mapped_column(HASH)
    definition: Mapped[str] = mapped_column(NAME)
    position: Mapped[int]
    """Its place in the definition's file."""
    split: Mapped[str] = mapped_column(NAME)
    weight: Mapped[float | None] = mapped_column(Float)
    body: Mapped[str] = mapped_column(Text)
    origin: Mapped[str] = mapped_column(String(16))
    """dataset or proposal"""
    is_current: Mapped[bool] = mapped_column(Boolean)
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)


class Author(Base):
    """A person or an agent. `subject` is the identity provider's name for who signed in."""

    __tablename__ = "authors"
    id: Mapped[int] = mapped_column(Serial, primary_key=True, autoincrement=True)
    name: Mapped[str] = mapped_column(NAME, unique=True)
    kind: Mapped[str] = mapped_column(String(16))
    """person or agent"""
    model: Mapped[str | None] = mapped_column(NAME)
    harness: Mapped[str | None] = mapped_column(NAME)
    subject: Mapped[str | None] = mapped_column(NAME, unique=True)
    banned_at: Mapped[datetime | None] = mapped_column(Moment)
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)


class Token(Base):
    """A secret is 256 random bits, so a plain SHA-256 of it can be neither guessed nor looked up."""

    __tablename__ = "tokens"
    id: Mapped[int] = mapped_column(Serial, primary_key=True, autoincrement=True)
    author_id: Mapped[int] = mapped_column(ForeignKey("authors.id"), index=True)
    hash: Mapped[str] = mapped_column(HASH, unique=True)
    scopes: Mapped[str] = mapped_column(NAME)
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)
    expires_at: Mapped[datetime | None] = mapped_column(Moment)
    revoked_at: Mapped[datetime | None] = mapped_column(Moment)


class Quota(Base):
    """Ranked and private submissions an hour; null stands for every author, every device model."""

    __tablename__ = "quotas"
    __table_args__ = (UniqueConstraint("author_id", "device_model"),)
    id: Mapped[int] = mapped_column(Serial, primary_key=True, autoincrement=True)
    author_id: Mapped[int | None] = mapped_column(ForeignKey("authors.id"))
    device_model: Mapped[str | None] = mapped_column(NAME)
    per_hour: Mapped[int]


class Audit(Base):
    """Who did what; never deleted by the service."""

    __tablename__ = "audit"
    id: Mapped[int] = mapped_column(Serial, primary_key=True, autoincrement=True)
    at: Mapped[datetime] = mapped_column(Moment, default=now)
    actor: Mapped[str] = mapped_column(NAME)
    action: Mapped[str] = mapped_column(NAME)
    target: Mapped[str] = mapped_column(NAME)
    data: Mapped[str] = mapped_column(Text, default="{}")


class Solution(Base):
    """A source, stored once whoever submits it again; `name` is unique, made so if need be."""

    __tablename__ = "solutions"
    hash: Mapped[str] = mapped_column(HASH, primary_key=True)
    name: Mapped[str] = mapped_column(NAME, unique=True)
    definition: Mapped[str] = mapped_column(NAME, index=True)
    author_id: Mapped[int] = mapped_column(ForeignKey("authors.id"), index=True)
    language: Mapped[str] = mapped_column(NAME)
    is_baseline: Mapped[bool] = mapped_column(Boolean, default=False)
    derived_from: Mapped[str | None] = mapped_column(NAME)
    likeness: Mapped[float | None] = mapped_column(Float)
    """Share of its tokens that `derived_from` has too, where the service found that out."""
    fingerprint: Mapped[bytes | None] = mapped_column(LargeBinary)
    """64-bit integers, little-endian; null until somebody has looked at it."""
    body: Mapped[str] = mapped_column(Text)
    is_public: Mapped[bool] = mapped_column(Boolean, default=False)
    """Whether it was ever submitted as ranked; until then it is its owner's alone."""
    hidden_at: Mapped[datetime | None] = mapped_column(Moment)
    """Taken off every list by an administrator."""
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)


class Submission(Base):
    """queued -> building -> judging -> done | cancelled | failed. `fence` grows with each lease."""

    __tablename__ = "submissions"
    __table_args__ = (
        Index("ix_submissions_queue", "state", "device_model", "priority", "created_at"),
        Index("ix_submissions_author_created", "author_id", "created_at"),
        Index("ix_submissions_state_ended", "state", "ended_at"),
    )
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    author_id: Mapped[int] = mapped_column(ForeignKey("authors.id"))
    solution_hash: Mapped[str] = mapped_column(ForeignKey("solutions.hash"), index=True)
    solution_name: Mapped[str] = mapped_column(NAME)
    """As it was submitted."""
    definition: Mapped[str] = mapped_column(NAME)
    definition_hash: Mapped[str] = mapped_column(HASH)
    edition_id: Mapped[int] = mapped_column(ForeignKey("editions.id"))
    """Which was open when it was accepted."""
    device_model: Mapped[str | None] = mapped_column(NAME)
    """As asked for; the one that took it up from then on."""
    device_kind: Mapped[str | None] = mapped_column(String(16))
    """cpu or cuda, where the solution is for one of them only."""
    workload_uuids: Mapped[str | None] = mapped_column(Text)
    is_ranked: Mapped[bool] = mapped_column(Boolean)
    priority: Mapped[int]
    state: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str | None] = mapped_column(Text)
    outcome: Mapped[str | None] = mapped_column(String(16))
    """Of what is done: passed or not_passed."""
    expected: Mapped[int]
    """How many verdicts it will have."""
    attempts: Mapped[int] = mapped_column(default=0)
    fence: Mapped[int] = mapped_column(default=0)
    holder: Mapped[str | None] = mapped_column(NAME)
    lease_until: Mapped[datetime | None] = mapped_column(Moment, index=True)
    not_before: Mapped[datetime | None] = mapped_column(Moment)
    cancel_requested: Mapped[bool] = mapped_column(Boolean, default=False)
    duplicate_of: Mapped[str | None] = mapped_column(ForeignKey("submissions.id"), index=True)
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)
    started_at: Mapped[datetime | None] = mapped_column(Moment)
    ended_at: Mapped[datetime | None] = mapped_column(Moment)


class Turn(Base):
    """When an author's submission was last taken up: who waited longest comes next."""

    __tablename__ = "turns"
    author_id: Mapped[int] = mapped_column(ForeignKey("authors.id"), primary_key=True)
    served_at: Mapped[datetime] = mapped_column(Moment)


class Event(Base):
    """What a watcher of a submission is told, in order."""

    __tablename__ = "events"
    __table_args__ = (Index("ix_events_submission", "submission_id", "id"),)
    id: Mapped[int] = mapped_column(Serial, primary_key=True, autoincrement=True)
    submission_id: Mapped[str] = mapped_column(ForeignKey("submissions.id"))
    kind: Mapped[str] = mapped_column(String(16))
    """state, verdict or note"""
    data: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime] = mapped_column(Moment, default=now)


class Trace(Base):
    """One verdict. A submission has one a workload; one from a dataset has no submission."""

    __tablename__ = "traces"
    __table_args__ = (
        UniqueConstraint("submission_id", "workload_uuid"),
        Index("ix_traces_solution", "solution_hash", "device_model", "id"),
        Index("ix_traces_definition", "definition", "device_model", "id"),
        Index("ix_traces_author", "author_id", "id"),
    )
    id: Mapped[int] = mapped_column(Serial, primary_key=True, autoincrement=True)
    digest: Mapped[str] = mapped_column(HASH, unique=True)
    """Of its text: the same trace is never stored twice."""
    submission_id: Mapped[str | None] = mapped_column(ForeignKey("submissions.id"))
    solution_hash: Mapped[str] = mapped_column(ForeignKey("solutions.hash"))
    author_id: Mapped[int] = mapped_column(ForeignKey("authors.id"))
    definition: Mapped[str] = mapped_column(NAME)
    workload_uuid: Mapped[str] = mapped_column(NAME)
    device_model: Mapped[str] = mapped_column(NAME)
    status: Mapped[str] = mapped_column(String(32))
    verdict: Mapped[str] = mapped_column(String(32))
    session: Mapped[str | None] = mapped_column(NAME)
    is_hidden: Mapped[bool] = mapped_column(Boolean, default=False)
    """On a workload of the hidden split: shown to nobody but administrators."""
    is_ranked: Mapped[bool] = mapped_column(Boolean, default=True)
    body: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)


class Device(Base):
    """A device that judges, or has judged."""

    __tablename__ = "devices"
    model: Mapped[str] = mapped_column(NAME, primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    arch: Mapped[str | None] = mapped_column(NAME)
    libs: Mapped[str] = mapped_column(Text, default="{}")
    count: Mapped[int] = mapped_column(default=0)
    seen_at: Mapped[datetime | None] = mapped_column(Moment)
    """When a dispatcher last offered it."""


class Session(Base):
    """One measurement sitting, as traces name it."""

    __tablename__ = "sessions"
    id: Mapped[str] = mapped_column(NAME, primary_key=True)
    device_model: Mapped[str] = mapped_column(NAME, index=True)
    judge_version: Mapped[str | None] = mapped_column(String(32))
    sandbox: Mapped[str | None] = mapped_column(NAME)
    submission_id: Mapped[str | None] = mapped_column(ForeignKey("submissions.id"))
    started_at: Mapped[datetime] = mapped_column(Moment, default=now)


class Share(Base):
    """What one solution's traces say on one device model, ready to be ranked (`evaluator.findings.Share`)."""

    __tablename__ = "shares"
    edition_id: Mapped[int] = mapped_column(ForeignKey("editions.id"), primary_key=True)
    definition: Mapped[str] = mapped_column(NAME, primary_key=True)
    device_model: Mapped[str] = mapped_column(NAME, primary_key=True)
    solution_hash: Mapped[str] = mapped_column(ForeignKey("solutions.hash"), primary_key=True, index=True)
    body: Mapped[str] = mapped_column(Text, default="")
    is_stale: Mapped[bool] = mapped_column(Boolean, default=True)


class Board(Base):
    """One definition's ranking on one device model. `version` grows with each change: caches go by it."""

    __tablename__ = "boards"
    __table_args__ = (
        Index("ix_boards_stale", "edition_id", sqlite_where=text("is_stale"), postgresql_where=text("is_stale")),
    )
    edition_id: Mapped[int] = mapped_column(ForeignKey("editions.id"), primary_key=True)
    device_model: Mapped[str] = mapped_column(NAME, primary_key=True)
    definition: Mapped[str] = mapped_column(NAME, primary_key=True)
    op_type: Mapped[str] = mapped_column(NAME)
    version: Mapped[int] = mapped_column(default=0)
    is_stale: Mapped[bool] = mapped_column(Boolean, default=True)
    summary: Mapped[str] = mapped_column(Text, default="{}")
    size: Mapped[int] = mapped_column(default=0)
    """How many entries there are."""
    top: Mapped[str] = mapped_column(Text, default="")
    """The first `boards.TOP` entries, one JSON object a line: nearly every reader asks for no more."""
    rest: Mapped[str] = mapped_column(Text, default="")
    """The others in the same form."""
    authors: Mapped[str] = mapped_column(Text, default="{}")
    languages: Mapped[str] = mapped_column(Text, default="{}")
    updated_at: Mapped[datetime] = mapped_column(Moment, default=now)


class History(Base):
    """What a board's head was, each time that it changed."""

    __tablename__ = "history"
    __table_args__ = (Index("ix_history_board", "edition_id", "device_model", "definition", "id"),)
    id: Mapped[int] = mapped_column(Serial, primary_key=True, autoincrement=True)
    edition_id: Mapped[int] = mapped_column(ForeignKey("editions.id"))
    device_model: Mapped[str] = mapped_column(NAME)
    definition: Mapped[str] = mapped_column(NAME)
    at: Mapped[datetime] = mapped_column(Moment, default=now)
    body: Mapped[str] = mapped_column(Text)


class Proposal(Base):
    """Workloads or a definition that somebody would like to see measured; an administrator decides."""

    __tablename__ = "proposals"
    id: Mapped[int] = mapped_column(Serial, primary_key=True, autoincrement=True)
    author_id: Mapped[int] = mapped_column(ForeignKey("authors.id"))
    kind: Mapped[str] = mapped_column(String(16))
    """workloads or definition"""
    definition: Mapped[str] = mapped_column(NAME)
    body: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(16), default="open")
    """open, accepted or rejected"""
    decided_by: Mapped[str | None] = mapped_column(NAME)
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)


class Report(Base):
    """What a serving host tells of a solution that it ran."""

    __tablename__ = "reports"
    id: Mapped[int] = mapped_column(Serial, primary_key=True, autoincrement=True)
    author_id: Mapped[int] = mapped_column(ForeignKey("authors.id"))
    solution_hash: Mapped[str] = mapped_column(ForeignKey("solutions.hash"), index=True)
    kind: Mapped[str] = mapped_column(String(16))
    """withdrawn or regressed"""
    evidence: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)


class Reply(Base):
    """What was answered to an Idempotency-Key: the same again, whatever happened in between."""

    __tablename__ = "replies"
    author_id: Mapped[int] = mapped_column(ForeignKey("authors.id"), primary_key=True)
    key: Mapped[str] = mapped_column(NAME, primary_key=True)
    request: Mapped[str] = mapped_column(HASH)
    """SHA-256 of method, path and body."""
    status: Mapped[int]
    body: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)
