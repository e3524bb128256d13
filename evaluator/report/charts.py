"""The geometry of the report's charts, as numbers for its template: positions in per cent, so that text keeps its size.

A ratio's axis is logarithmic: twice as fast and half as fast lie equally far from 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, log

from kernelmill.evaluator.scoring import fast_p
from kernelmill.evaluator.statistics import Ratio

_FINE = [0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2]
_POWERS = [2.0**exponent for exponent in range(-10, 14)]
_COARSE = 2.0  # an axis that spans more than this factor is marked by powers of two


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis of ratios that always shows 1."""

    ticks: tuple[float, ...]

    def at(self, ratio: float) -> float:
        """Per cent from the left, held within the axis."""
        low, high = self.ticks[0], self.ticks[-1]
        held = min(max(ratio, low), high)
        return round(100 * log(held / low) / log(high / low), 3)


def ratio_axis(ratios: Iterable[float]) -> Axis:
    """The shortest marked axis around 1 and all finite positive ratios."""
    known = [ratio for ratio in ratios if ratio > 0 and isfinite(ratio)]
    low, high = min([*known, 1.0]), max([*known, 1.0])
    marks = _FINE if high / low <= _COARSE and low >= _FINE[0] and high <= _FINE[-1] else _POWERS
    below = max((mark for mark in marks if mark <= low), default=marks[0])
    above = min((mark for mark in marks if mark >= max(high, 1.0) and mark > below), default=marks[-1])
    return Axis(tuple(mark for mark in marks if below <= mark <= above))


@dataclass(frozen=True, slots=True)
class Bar:
    """From 1 to a speedup, its interval as whiskers, and a dot for the geometric mean of all ratios."""

    start: float
    width: float
    lo: float
    hi: float
    dot: float | None


def bar(axis: Axis, speedup: Ratio, geomean: float | None = None) -> Bar:
    one, end = axis.at(1.0), axis.at(speedup.point)
    return Bar(
        start=min(one, end),
        width=round(abs(end - one), 3),
        lo=axis.at(speedup.lo),
        hi=axis.at(speedup.hi),
        dot=None if geomean is None else axis.at(geomean),
    )


@dataclass(frozen=True, slots=True)
class Curve:
    """A fast_p curve: an SVG path in a box of 1000 x 1000, and its values at the axis's marks."""

    name: str
    path: str
    values: tuple[float, ...]
    ratios: tuple[float, ...]


def curve(axis: Axis, name: str, ratios: Sequence[float]) -> Curve:
    """Falls at each ratio by the share of workloads that were no faster than it."""
    low, high = axis.ticks[0], axis.ticks[-1]
    steps = [f"M0 {_down(fast_p(ratios, low))}"]
    for ratio in sorted({ratio for ratio in ratios if low < ratio <= high}):
        steps.append(f"H{10 * axis.at(ratio):g}V{_down(fast_p(ratios, ratio))}")
    values = tuple(fast_p(ratios, tick) for tick in axis.ticks)
    return Curve(name, "".join([*steps, "H1000"]), values, tuple(sorted(ratios)))


def _down(share: float) -> str:
    return f"{1000 * (1 - share):g}"


GROUPS = {
    "passed": ("PASSED",),
    "wrong answer": ("INCORRECT_SHAPE", "INCORRECT_DTYPE", "INCORRECT_NUMERICAL"),
    "failed": ("RUNTIME_ERROR", "COMPILE_ERROR", "TIMEOUT", "RESOURCE_EXCEEDED", "INVALID_SUBMISSION"),
    "not trusted": ("CHEAT_DETECTED", "SUSPECT", "RULE_VIOLATION"),
    "not judged": ("NOT_JUDGED",),
}


@dataclass(frozen=True, slots=True)
class Segment:
    """One group's part of a stacked bar."""

    group: str
    count: int
    start: float
    width: float


def stack(verdicts: Mapping[str, int]) -> list[Segment]:
    """The groups present, in the order of `GROUPS`, side by side over the whole width."""
    total, start = sum(verdicts.values()), 0.0
    segments = []
    for group, members in GROUPS.items():
        if count := sum(verdicts.get(verdict, 0) for verdict in members):
            width = 100 * count / total
            segments.append(Segment(group, count, round(start, 3), round(width, 3)))
            start += width
    return segments
