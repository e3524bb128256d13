"""What operators do to submissions, solutions and authors. Nothing is deleted, everything can be undone."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from kernelmill.leaderboard import audit, catalog, events, tokens, traces
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.insert import insert_new
from kernelmill.leaderboard.db.types import now
from kernelmill.leaderboard.errors import NotFound


def requeue(connection: Connection, number: str, *, by: str) -> None:
    """From the start, whatever state it is in; a dispatcher that works on it loses its lease. Raises NotFound."""
    own = t.Submission
    row = connection.execute(select(own.id).where(own.id == number).with_for_update()).one_or_none()
    if row is None:
        raise NotFound(f"there is no submission {number}")
    traces.forget_submission(connection, number)
    fresh = {"state": "queued", "reason": None, "outcome": None, "attempts": 0, "holder": None, "lease_until": None}
    fresh |= {"not_before": None, "cancel_requested": False, "duplicate_of": None, "started_at": None, "ended_at": None}
    connection.execute(update(own).where(own.id == number).values(fence=own.fence + 1, **fresh))
    events.tell(connection, number, "state", state="queued", reason="queued again by an administrator")
    audit.note(connection, by, "submission.requeue", number)


def hide(connection: Connection, solution: str, *, by: str, undo: bool = False) -> None:
    """Raises NotFound."""
    row = connection.execute(
        select(t.Solution.hash, t.Solution.is_baseline).where(
            (t.Solution.hash == solution) | (t.Solution.name == solution)
        )
    ).one_or_none()
    if row is None:
        raise NotFound(f"there is no solution {solution!r}")
    connection.execute(update(t.Solution).where(t.Solution.hash == row.hash).values(hidden_at=None if undo else now()))
    _touch_boards(connection, row.hash)
    if row.is_baseline:
        catalog.open_edition(connection)
    audit.note(connection, by, "solution.show" if undo else "solution.hide", row.hash)


def ban(connection: Connection, author: str, *, by: str, undo: bool = False) -> None:
    """Their tokens stay valid for reading. Raises NotFound."""
    number = tokens.find_author(connection, author)
    connection.execute(update(t.Author).where(t.Author.id == number).values(banned_at=None if undo else now()))
    for key in connection.scalars(select(t.Solution.hash).where(t.Solution.author_id == number)).all():
        _touch_boards(connection, key)
    audit.note(connection, by, "author.unban" if undo else "author.ban", author)


def set_quota(connection: Connection, per_hour: int, author: str | None, device_model: str | None, *, by: str) -> None:
    """Raises NotFound for an unknown author."""
    number = tokens.find_author(connection, author) if author is not None else None
    own = t.Quota
    same = (
        own.author_id == number if number is not None else own.author_id.is_(None),
        own.device_model == device_model if device_model is not None else own.device_model.is_(None),
    )
    if not connection.execute(update(own).where(*same).values(per_hour=per_hour)).rowcount:
        insert_new(connection, own, {"author_id": number, "device_model": device_model, "per_hour": per_hour})
    audit.note(connection, by, "quota.set", author or "*", device_model=device_model, per_hour=per_hour)


def _touch_boards(connection: Connection, solution_hash: str) -> None:
    query = select(t.Share.definition, t.Share.device_model).where(
        t.Share.edition_id == catalog.current_edition(connection), t.Share.solution_hash == solution_hash
    )
    for row in connection.execute(query).all():
        traces.mark_stale(connection, solution_hash, row.definition, row.device_model)
