"""Near clones: which stored source a new one resembles, by the fingerprints of `likeness`."""

from __future__ import annotations

from array import array
from typing import NamedTuple

from sqlalchemy import Connection, select

from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.likeness import NEAR, fingerprint, likeness
from kernelmill.trace_schema import Solution


class Near(NamedTuple):
    """The most similar public source of the same definition, and the share of the new one that is in it."""

    name: str
    share: float


def packed(solution: Solution) -> bytes:
    """As the database keeps it: 64-bit integers, in this machine's order of bytes (little-endian everywhere today)."""
    return array("q", fingerprint(solution)).tobytes()


def unpacked(data: bytes) -> array[int]:
    numbers = array("q")
    numbers.frombytes(data)
    return numbers


def nearest(connection: Connection, solution: Solution) -> Near | None:
    """Only public sources: a private one must not be told of through its likeness."""
    own = fingerprint(solution)
    query = select(t.Solution.name, t.Solution.fingerprint).where(
        t.Solution.definition == solution.definition,
        t.Solution.is_public,
        t.Solution.hidden_at.is_(None),
        t.Solution.fingerprint.is_not(None),
    )
    best: Near | None = None
    for row in connection.execute(query.order_by(t.Solution.created_at)):
        share = likeness(own, unpacked(row.fingerprint))
        if share >= NEAR and (best is None or share > best.share):
            best = Near(row.name, share)
    return best
