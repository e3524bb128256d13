"""From single measured sizes to ranges: the boxes whose measured sizes all agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

Sizes = tuple[int, ...]


class Span(NamedTuple):
    """A box with the measured sizes in it, ends included."""

    lo: Sizes
    hi: Sizes
    points: tuple[Sizes, ...]


def spans(measured: Mapping[Sizes, bool]) -> list[Span]:
    """`measured`: whether the solution may serve each size.

    The boxes between any two good sizes without a bad one inside, less those that lie in another; with one feature the
    steps between neighbours are kept instead, so that the best kernel can be chosen step by step.
    """
    good = sorted(point for point, serves in measured.items() if serves)
    if not good:
        return []
    if len(good[0]) == 1:
        return _steps(sorted(measured), measured)
    found = [_box((first, second), measured) for first, second in combinations(good, 2)]
    found += [_box((point,), measured) for point in good]
    boxes = {box for box in found if all(measured[point] for point in box.points)}
    return sorted(box for box in boxes if not any(box != other and _inside(box, other) for other in boxes))


def _steps(sizes: Sequence[Sizes], measured: Mapping[Sizes, bool]) -> list[Span]:
    steps = [
        Span(first, second, (first, second))
        for first, second in pairwise(sizes)
        if measured[first] and measured[second]
    ]
    covered = {point for step in steps for point in step.points}
    return sorted(steps + [Span(point, point, (point,)) for point in sizes if measured[point] and point not in covered])


def _box(corners: Sequence[Sizes], measured: Mapping[Sizes, bool]) -> Span:
    lo = tuple(min(values) for values in zip(*corners, strict=True))
    hi = tuple(max(values) for values in zip(*corners, strict=True))
    inside = [
        point
        for point in sorted(measured)
        if all(low <= size <= high for low, size, high in zip(lo, point, hi, strict=True))
    ]
    return Span(lo, hi, tuple(inside))


def _inside(box: Span, other: Span) -> bool:
    return all(a >= b for a, b in zip(box.lo, other.lo, strict=True)) and all(
        a <= b for a, b in zip(box.hi, other.hi, strict=True)
    )
