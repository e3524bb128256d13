"""Which kernel serves which sizes: boxes over a few features, cut into the cells of a grid.

A box covers lo <= feature <= hi on every feature. All ends of all boxes cut each feature into intervals; a look-up is
one `bisect` a feature and one list index, however large the sizes are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Box:
    """Sizes from `lo` to `hi`, both included, feature by feature, and the number of the kernel that serves them."""

    lo: tuple[int, ...]
    hi: tuple[int, ...]
    kernel: int

    def __contains__(self, sizes: Sequence[int]) -> bool:
        return all(lo <= size <= hi for lo, size, hi in zip(self.lo, sizes, self.hi, strict=True))


class Grid(NamedTuple):
    """`cells[sum(bisect_right(cuts[i], size[i]) * strides[i])]` is the kernel's number, None where there is none."""

    cuts: tuple[tuple[int, ...], ...]
    strides: tuple[int, ...]
    cells: list[int | None]

    def cell(self, sizes: Sequence[int]) -> int:
        places = (bisect_right(cuts, size) for cuts, size in zip(self.cuts, sizes, strict=True))
        return sum(place * stride for place, stride in zip(places, self.strides, strict=True))

    def span(self, cell: int) -> tuple[tuple[int | None, int | None], ...]:
        """The sizes that a cell stands for, both ends included; None where it has no end."""
        spans = []
        for cuts, stride in zip(self.cuts, self.strides, strict=True):
            place = cell // stride % (len(cuts) + 1)
            spans.append((cuts[place - 1] if place else None, cuts[place] - 1 if place < len(cuts) else None))
        return tuple(spans)


def make_grid(features: int, boxes: Sequence[Box]) -> Grid:
    """Where boxes overlap the first one wins."""
    cuts = tuple(
        tuple(sorted({end for box in boxes for end in (box.lo[at], box.hi[at] + 1)})) for at in range(features)
    )
    strides, size = [], 1
    for own in reversed(cuts):
        strides.append(size)
        size *= len(own) + 1
    strides.reverse()
    cells: list[int | None] = [None] * size
    for box in boxes:
        ranges = [
            range(bisect_right(own, lo), bisect_right(own, hi) + 1)
            for own, lo, hi in zip(cuts, box.lo, box.hi, strict=True)
        ]
        for places in product(*ranges):
            cell = sum(place * stride for place, stride in zip(places, strides, strict=True))
            if cells[cell] is None:
                cells[cell] = box.kernel
    return Grid(cuts, tuple(strides), cells)
