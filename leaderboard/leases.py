"""Leases: which dispatcher works on which submission, until when.

A lease is a row taken under a lock, with a fence that grows each time. Every write of its holder names the fence, so a
dispatcher that was thought dead and comes back can change nothing. Only here is something tried again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import ColumnElement, Connection, and_, case, func, insert, or_, select, update

from kernelmill.evaluator.devices.base import Named
from kernelmill.leaderboard import catalog, events, submissions
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.types import now
from kernelmill.trace_schema.errors import InternalError

BACKOFF_S = 5.0
"""Before the second attempt; doubled for each further one."""


class LeaseLost(InternalError):
    """Somebody else holds it now: stop, and write nothing."""


class Cancelled(InternalError):
    """Its author asked to stop."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on one submission. `done` are the workload uuids that have their verdict already."""

    id: str
    fence: int
    attempt: int
    solution_hash: str
    definition: str
    definition_hash: str
    workload_uuids: frozenset[str] | None
    is_ranked: bool
    done: frozenset[str]


def take(connection: Connection, device: Named, holder: str, *, lease_s: float, attempts: int) -> Lease | None:
    """The next submission for this device, or None: short private runs first, then who was served longest ago."""
    _give_up(connection, attempts)
    own = t.Submission
    starved = own.created_at < now() - timedelta(seconds=submissions.STARVED_S)
    query = (
        select(own.id, own.author_id)
        .outerjoin(t.Turn, t.Turn.author_id == own.author_id)
        .where(*_due(device))
        .order_by(
            case((starved, 0), else_=own.priority),
            t.Turn.served_at.is_not(None),
            t.Turn.served_at,
            own.created_at,
            own.id,
        )
        .limit(1)
        .with_for_update(of=own, skip_locked=True)
    )
    row = connection.execute(query).one_or_none()
    return _lease(connection, row.id, row.author_id, device.model, holder, lease_s) if row else None


def is_waiting(connection: Connection, device: Named) -> bool:
    """Whether there is anything to take; a look that locks nothing."""
    return connection.scalar(select(t.Submission.id).where(*_due(device)).limit(1)) is not None


def _due(device: Named) -> list[ColumnElement[bool]]:
    """Waiting for this device, or left behind by a holder that was lost."""
    own, at = t.Submission, now()
    waiting = and_(own.state == "queued", or_(own.not_before.is_(None), own.not_before <= at))
    abandoned = and_(own.state.in_(("building", "judging")), own.lease_until < at)
    return [
        or_(own.device_model == device.model, own.device_model.is_(None)),
        or_(own.device_kind == device.kind, own.device_kind.is_(None)),
        own.duplicate_of.is_(None),
        or_(waiting, abandoned),
    ]


def _lease(
    connection: Connection, number: str, author_id: int, device_model: str, holder: str, lease_s: float
) -> Lease:
    own, at = t.Submission, now()
    row = connection.execute(
        update(own)
        .where(own.id == number)
        .values(
            state="building",
            fence=own.fence + 1,
            attempts=own.attempts + 1,
            holder=holder,
            device_model=device_model,
            lease_until=at + timedelta(seconds=lease_s),
            started_at=func.coalesce(own.started_at, at),
        )
        .returning(
            own.fence,
            own.attempts,
            own.solution_hash,
            own.definition,
            own.definition_hash,
            own.workload_uuids,
            own.is_ranked,
        )
    ).one()
    if not connection.execute(update(t.Turn).where(t.Turn.author_id == author_id).values(served_at=at)).rowcount:
        connection.execute(insert(t.Turn).values(author_id=author_id, served_at=at))
    events.tell(connection, number, "state", state="building", attempt=row.attempts)
    done = connection.scalars(select(t.Trace.workload_uuid).where(t.Trace.submission_id == number))
    return Lease(
        id=number,
        fence=row.fence,
        attempt=row.attempts,
        solution_hash=row.solution_hash,
        definition=row.definition,
        definition_hash=row.definition_hash,
        workload_uuids=frozenset(json.loads(row.workload_uuids)) if row.workload_uuids is not None else None,
        is_ranked=row.is_ranked,
        done=frozenset(done),
    )


def hold(connection: Connection, lease: Lease, *, lease_s: float, state: str | None = None) -> None:
    """Say that it is still worked on. Raises LeaseLost, Cancelled."""
    values = {"lease_until": now() + timedelta(seconds=lease_s)} | ({"state": state} if state else {})
    row = connection.execute(
        update(t.Submission).where(_held(lease)).values(**values).returning(t.Submission.cancel_requested)
    ).one_or_none()
    if row is None:
        raise LeaseLost(f"the submission {lease.id} is no longer ours")
    if row.cancel_requested:
        raise Cancelled(f"the submission {lease.id} is to be cancelled")
    if state:
        events.tell(connection, lease.id, "state", state=state)


def check(connection: Connection, lease: Lease) -> None:
    """First statement of a holder's transaction: locks the row. Raises LeaseLost."""
    row = connection.execute(select(t.Submission.id).where(_held(lease)).with_for_update()).one_or_none()
    if row is None:
        raise LeaseLost(f"the submission {lease.id} is no longer ours")


def finish(
    connection: Connection, lease: Lease, state: str, *, reason: str | None = None, outcome: str | None = None
) -> None:
    """Into a terminal state. Raises LeaseLost."""
    check(connection, lease)
    submissions.end(connection, lease.id, state, reason=reason, outcome=outcome)


def retry(connection: Connection, lease: Lease, reason: str, *, attempts: int) -> None:
    """What failed was ours: queue it again, later each time, or give it up. Raises LeaseLost."""
    if lease.attempt >= attempts:
        finish(connection, lease, "failed", reason=f"given up after {lease.attempt} attempts: {reason}")
        return
    check(connection, lease)
    told = catalog.without_hidden(connection, reason)
    wait = timedelta(seconds=BACKOFF_S * 2 ** (lease.attempt - 1))
    connection.execute(
        update(t.Submission)
        .where(t.Submission.id == lease.id)
        .values(state="queued", reason=told, holder=None, lease_until=None, not_before=now() + wait)
    )
    events.tell(connection, lease.id, "state", state="queued", reason=told)


def _give_up(connection: Connection, attempts: int) -> None:
    """Submissions whose holders were lost as often as one may be."""
    own = t.Submission
    query = (
        select(own.id)
        .where(own.state.in_(("building", "judging")), own.lease_until < now(), own.attempts >= attempts)
        .with_for_update(skip_locked=True)
    )
    for number in connection.scalars(query).all():
        reason = f"given up after {attempts} attempts: what judged it was lost each time"
        submissions.end(connection, number, "failed", reason=reason)


def _held(lease: Lease) -> ColumnElement[bool]:
    own = t.Submission
    return and_(own.id == lease.id, own.fence == lease.fence, own.state.in_(("building", "judging")))
