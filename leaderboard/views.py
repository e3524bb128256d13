"""What a submission looks like from outside, at one moment."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, select

from kernelmill.leaderboard import submissions
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.types import AnyRow
from kernelmill.leaderboard.tokens import Principal

BASE = "/api/v1"


def submission(connection: Connection, row: AnyRow) -> dict[str, Any]:
    """Of a row that `submissions.find` gave."""
    number = row.duplicate_of or row.id
    place = submissions.position(connection, row)
    guess = submissions.eta_s(connection, row, place)
    is_untouched = row.attempts == 0 and row.duplicate_of is None
    return {
        "id": row.id,
        "state": row.state,
        "position": place,
        "eta_s": round(guess, 1) if guess is not None else None,
        "ranked": row.is_ranked,
        "definition": row.definition,
        "device_model": row.device_model,
        "author": row.author,
        "solution": {
            "hash": row.solution_hash,
            "name": row.stored_name,
            "author": row.author,
            "derived_from": row.derived_from,
        },
        "duplicate_of": row.duplicate_of,
        "outcome": row.outcome,
        "reason": row.reason,
        "expected": row.expected,
        "verdicts": {} if is_untouched else _verdicts(connection, number),
        "attempts": row.attempts,
        "created_at": row.created_at.isoformat(),
        "started_at": row.started_at.isoformat() if row.started_at else None,
        "ended_at": row.ended_at.isoformat() if row.ended_at else None,
        "links": {
            "self": f"{BASE}/submissions/{row.id}",
            "events": f"{BASE}/submissions/{row.id}/events",
            "solution": f"{BASE}/solutions/{row.solution_hash}",
            "traces": f"{BASE}/traces?submission={number}",
        },
    }


def see(connection: Connection, number: str, who: Principal) -> dict[str, Any]:
    """Raises NotFound."""
    return submission(connection, submissions.find(connection, number, who))


def _verdicts(connection: Connection, number: str) -> dict[str, int]:
    counted = (
        select(t.Trace.verdict, func.count())
        .where(t.Trace.submission_id == number, t.Trace.is_hidden.is_(False))
        .group_by(t.Trace.verdict)
    )
    return dict(sorted((verdict, count) for verdict, count in connection.execute(counted)))
