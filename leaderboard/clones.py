"""Near clones: which stored source a new one resembles, by the fingerprints of `likeness`.

A new source is looked at before it is judged, not while its author waits for an answer, and in the order in which they
came: so the later one is the clone.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, func, select, update

from kernelmill.leaderboard import events
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.likeness import NEAR, likeness
from kernelmill.leaderboard.submissions import OPEN


class Near(NamedTuple):
    """The most similar public source of the same definition, and the share of the smaller one that both have."""

    name: str
    share: float


def unseen(connection: Connection, solution_hash: str) -> list[tuple[str, str]]:
    """(hash, JSON text) of this source and those before it that nobody has looked at, the oldest first."""
    own = t.Solution
    this = select(own.definition, own.created_at).where(own.hash == solution_hash).subquery()
    query = (
        select(own.hash, own.body)
        .join(this, own.definition == this.c.definition)
        .where(own.fingerprint.is_(None), own.created_at <= this.c.created_at)
        .order_by(own.created_at, own.hash)
    )
    return [(row.hash, row.body) for row in connection.execute(query)]


def note(connection: Connection, solution_hash: str, own: Sequence[int]) -> None:
    """Keep its fingerprint; where it is a near clone say of what, to whoever watches it, unless its author has."""
    row = connection.execute(
        select(t.Solution.definition, t.Solution.derived_from, t.Solution.created_at).where(
            t.Solution.hash == solution_hash, t.Solution.fingerprint.is_(None)
        )
    ).one_or_none()
    if row is None:
        return
    waiting = connection.scalars(
        select(t.Submission.id).where(t.Submission.solution_hash == solution_hash, t.Submission.state.in_(OPEN))
    ).all()
    near = nearest(connection, row.definition, own) if waiting else None  # an operator's own may resemble each other
    connection.execute(
        update(t.Solution)
        .where(t.Solution.hash == solution_hash)
        .values(
            fingerprint=array("q", own).tobytes(),
            likeness=near.share if near else None,
            derived_from=row.derived_from or (near.name if near else None),
        )
    )
    if near is not None and row.derived_from is None:
        text = f"{near.share:.0%} of it is in {near.name} as well, so it is listed as derived from that"
        for number in waiting:
            events.tell(connection, number, "note", text=text)


def nearest(connection: Connection, definition: str, own: Sequence[int]) -> Near | None:
    """Of what was looked at before. Only public ones: a private one must not be told of by its likeness."""
    query = select(t.Solution.name, t.Solution.fingerprint).where(
        t.Solution.definition == definition,
        t.Solution.is_public,
        t.Solution.hidden_at.is_(None),
        func.length(t.Solution.fingerprint) > 0,
    )
    best: Near | None = None
    for row in connection.execute(query.order_by(t.Solution.created_at)):
        share = likeness(own, array("q", row.fingerprint))
        if share >= NEAR and (best is None or share > best.share):
            best = Near(row.name, share)
    return best
