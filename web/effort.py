"""What agents' best kernels took to make, by their own word: evaluations, tokens, money."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json
from sqlalchemy import Connection, select

from kernelmill.agents.making import Making
from kernelmill.leaderboard.db import tables as t

BUDGETS = ((30.0, "small"), (300.0, "medium"))
"""Up to so many evaluations a kernel; beyond, it is large."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Of one author's best kernels together; `told` is how many of them tell how they came to be."""

    told: int
    evaluations: float
    tokens: float
    cost_usd: float

    @property
    def budget(self) -> str:
        a_kernel = self.evaluations / self.told
        return next((name for most, name in BUDGETS if a_kernel <= most), "large")


def efforts(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> dict[str, Effort]:
    """By name, of the authors' rows of a board; nothing for who tells nothing."""
    best = {row["name"]: {each["solution_hash"] for each in row["best"].values()} for row in rows}
    own = t.Solution
    told = own.hash.in_(set().union(*best.values())), own.body.contains("kernelmill agent ", autoescape=True)
    query = select(own.hash, own.body).where(*told, own.is_public, own.hidden_at.is_(None))
    read = {row.hash: Making.read(from_json(row.body).get("description")) for row in connection.execute(query)}
    found = {name: [making for key in hashes if (making := read.get(key))] for name, hashes in best.items()}
    return {name: _effort(makings) for name, makings in found.items() if makings}


def _effort(makings: Sequence[Making]) -> Effort:
    return Effort(
        told=len(makings),
        evaluations=sum(making.evaluations for making in makings),
        tokens=sum(making.tokens for making in makings),
        cost_usd=sum(making.cost_usd for making in makings),
    )
