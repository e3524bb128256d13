"""Which steps of all the replays become workloads: one out of each stratum, standing for all steps of its stratum.

A step is a row of features (tokens, sequences, cached tokens, ...), compared by their logarithms. Strata are made by
cutting the widest and fullest one in two, again and again. The least and the greatest step of each feature are strata
of their own, so that no reduction drops them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from numpy.typing import NDArray

Table: TypeAlias = "NDArray[Any]"
"""One row a step, one column a feature; whole numbers above 0."""


@dataclass(frozen=True, slots=True)
class Pick:
    """Row `row` of the table stands for `steps` rows, itself among them."""

    row: int
    steps: int


def strata(table: Table, count: int, steps: Table | None = None) -> list[Table]:
    """Every row of the table in exactly one of at most `count` strata (more only where the extremes alone are more).

    Extremes come first. Rows that are equal are never in two strata. `steps`: how many steps each row stands for.
    """
    import numpy as np

    if not len(table):
        return []
    unique, inverse, sizes = np.unique(table, axis=0, return_inverse=True, return_counts=True)
    inverse = inverse.reshape(-1)
    if steps is not None:
        sizes = np.bincount(inverse, weights=steps)
    ends = {int(at) for column in unique.T for at in (column.argmin(), column.argmax())}
    rest = np.array([at for at in range(len(unique)) if at not in ends], dtype=int)
    cells = [np.array([at]) for at in sorted(ends)] + _cut(np.log2(unique), sizes, rest, count - len(ends))
    cell_of = np.empty(len(unique), dtype=int)
    for number, cell in enumerate(cells):
        cell_of[cell] = number
    order = np.argsort(cell_of[inverse], kind="stable")
    bounds = np.cumsum(np.bincount(cell_of[inverse], minlength=len(cells)))[:-1]
    return list(np.split(order, bounds))


def _cut(points: Table, sizes: Table, rest: Table, count: int) -> list[Table]:
    """`rest` in `count` parts, each made by halving the part with the largest width times fourth root of its size."""
    import numpy as np

    parts = [rest] if len(rest) else []
    while 0 < len(parts) < count:
        widths = [np.ptp(points[part], axis=0) for part in parts]
        gains = [
            float(width.max()) * float(sizes[part].sum()) ** 0.25 for part, width in zip(parts, widths, strict=True)
        ]
        at = int(np.argmax(gains))
        if gains[at] == 0:
            break
        part, column = parts[at], points[parts[at], int(widths[at].argmax())]
        order = np.argsort(column, kind="stable")
        middle = column[order][np.searchsorted(np.cumsum(sizes[part][order]), sizes[part].sum() / 2)]
        low = column < middle if (column < middle).any() else column <= middle
        parts[at : at + 1] = [part[low], part[~low]]
    return parts


def public(table: Table, count: int, steps: Table | None = None) -> list[Pick]:
    """The row nearest to the middle of each stratum. `steps`: how many steps each row stands for, one if left out."""
    import numpy as np

    picks = []
    for members in strata(table, count, steps):
        points = np.log2(table[members])
        middle = np.average(points, axis=0, weights=None if steps is None else steps[members])
        nearest = int(np.argmin(((points - middle) ** 2).sum(axis=1)))
        picks.append(Pick(int(members[nearest]), len(members) if steps is None else int(steps[members].sum())))
    return picks


def hidden(table: Table, count: int, taken: Sequence[Pick], seed: str) -> list[Pick]:
    """Of each stratum a row that `seed` draws, unlike every one that is `taken`; strata with no other row are left out.

    The same seed gives the same rows.
    """
    known = {tuple(row) for row in table[[pick.row for pick in taken]].tolist()}
    picks = []
    for number, members in enumerate(strata(table, count)):
        others = [int(at) for at in members if tuple(table[at].tolist()) not in known]
        if others:
            picks.append(Pick(random.Random(f"{seed}/{number}").choice(others), len(members)))
    return picks
