"""What watchers of a submission are told: written in the transaction that makes it true, read in order."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert, select

from kernelmill.leaderboard.db import tables as t


class Told(NamedTuple):
    """`data` is a JSON object as text."""

    id: int
    kind: str
    data: str


def tell(connection: Connection, submission: str, kind: str, **data: Any) -> None:
    kept = {name: value for name, value in data.items() if value is not None}
    connection.execute(insert(t.Event), {"submission_id": submission, "kind": kind, "data": json.dumps(kept)})


def after(connection: Connection, submission: str, last: int, limit: int = 500) -> list[Told]:
    query = (
        select(t.Event.id, t.Event.kind, t.Event.data)
        .where(t.Event.submission_id == submission, t.Event.id > last)
        .order_by(t.Event.id)
        .limit(limit)
    )
    return [Told(row.id, row.kind, row.data) for row in connection.execute(query)]


def copy(connection: Connection, source: str, target: str) -> None:
    """Verdicts that are shared are told to both."""
    query = select(t.Event.kind, t.Event.data).where(t.Event.submission_id == source, t.Event.kind == "verdict")
    for row in connection.execute(query.order_by(t.Event.id)).all():
        connection.execute(insert(t.Event).values(submission_id=target, kind=row.kind, data=row.data))
