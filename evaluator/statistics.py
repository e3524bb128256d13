"""How sure a speedup is: intervals for ratios of paired times, with nothing but the standard library.

All arithmetic is on the natural log of a ratio, so that swapping the two sides gives exactly the reciprocal result:

- a session's estimate is the median of its adjacent-pair log ratios;
- three sessions or more: Student's t on the session estimates, since sessions are the independent unit;
- fewer: what the pairs of those sessions can tell, marked `within-session`, as it says nothing of the next session;
- never narrower than the pairs allow: a median's order-statistic interval (exact for independent pairs) and a block
  bootstrap (for neighbours that resemble each other) are both contained, so sessions that agree by luck gain nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb, cos, exp, inf, isfinite, isqrt, log, pi, sin, sqrt, tan
from random import Random
from statistics import fmean, median, stdev
from typing import Any, Literal, Self

from kernelmill.trace_schema.errors import InternalError

Kind = Literal["sessions", "within-session", "exact"]
_LEAST_SURE_FIRST: tuple[Kind, ...] = ("within-session", "sessions", "exact")

CONFIDENCE = 0.95
MIN_SESSIONS = 3
MIN_PAIRS = 6
"""Fewer bound nothing at 95 %: all of five lie on one side of the median once in sixteen times."""
_RESAMPLES = 600
_SEED = 20260401


@dataclass(slots=True, unsafe_hash=True)  # nobody changes one; frozen ones take three times as long to make
class Ratio:
    """A time ratio (> 1 = the solution is faster) with its 95 % interval; `kind` says what the interval covers."""

    point: float
    lo: float
    hi: float
    kind: Kind = "sessions"

    def as_list(self) -> list[Any]:
        """For JSON, which has no infinity: null stands for it."""
        return [*(None if bound == inf else bound for bound in (self.point, self.lo, self.hi)), self.kind]

    @classmethod
    def from_list(cls, values: Sequence[Any]) -> Self:
        point, lo, hi, kind = values
        return cls(inf if point is None else point, inf if lo is None else lo, inf if hi is None else hi, kind)


ONE = Ratio(1.0, 1.0, 1.0, "exact")


def paired_ratio(sessions: Sequence[Sequence[float]]) -> Ratio:
    """The ratio behind one list of log(t_base / t_sol) per session, one number per adjacent pair of calls.

    Of fewer than MIN_PAIRS the interval is (0, inf).
    """
    kept = [list(session) for session in sessions if session]
    pairs = [value for session in kept for value in session]
    if not pairs or not all(isfinite(value) for value in pairs):
        raise InternalError(f"paired_ratio needs finite log ratios, got {len(pairs)} pairs in {len(sessions)} sessions")
    estimates = [median(session) for session in kept]
    centre = fmean(estimates)
    spans = [_order_statistic_interval(pairs), _block_bootstrap_interval(kept)]
    if len(estimates) >= MIN_SESSIONS:
        half = _t_half_width(estimates)
        return _from_logs(centre, [(centre - half, centre + half), *spans], "sessions")
    return _from_logs(centre, [(min(estimates), max(estimates)), *spans], "within-session")


def pooled_ratio(ratios: Sequence[Ratio]) -> Ratio:
    """One ratio out of three or more separate sittings: t on their log ratios, each sitting one observation.

    Not narrower than the sittings' own typical interval divided by the root of their number.
    """
    if len(ratios) < MIN_SESSIONS:
        raise InternalError(f"pooled_ratio needs {MIN_SESSIONS} sittings or more, got {len(ratios)}")
    logs = [log(ratio.point) for ratio in ratios]
    own = median(_log_half_width(ratio) for ratio in ratios) / sqrt(len(ratios))
    centre, half = fmean(logs), max(_t_half_width(logs), own)
    return _from_logs(centre, [(centre - half, centre + half)], "sessions")


def geometric_mean(values: Sequence[float]) -> float:
    """0.0 if any value is 0; inf if any is infinite; an empty list is the caller's mistake."""
    if not values:
        raise InternalError("the geometric mean of nothing is undefined")
    return 0.0 if min(values) <= 0 else exp(fmean(map(log, values)))


def mean_ratio(ratios: Sequence[Ratio]) -> Ratio:
    """The geometric mean, bounds with bounds (as if all erred the same way), marked like the least sure; 1 of none."""
    if not ratios:
        return ONE
    point, lo, hi = (geometric_mean(values) for values in zip(*((r.point, r.lo, r.hi) for r in ratios), strict=True))
    return Ratio(point, lo, hi, least_sure(ratios))


def least_sure(ratios: Iterable[Ratio]) -> Kind:
    """The kind that a combination of ratios can claim."""
    kinds = {ratio.kind for ratio in ratios}
    return next((kind for kind in _LEAST_SURE_FIRST if kind in kinds), "exact")


@lru_cache(maxsize=256)
def student_t(df: int, confidence: float = CONFIDENCE) -> float:
    """The t with P(|T| <= t) = confidence, by bisection on the angle (Abramowitz & Stegun 26.7.3-4)."""
    if df < 1:
        raise InternalError(f"Student's t needs at least one degree of freedom, got {df}")
    low, high = 0.0, pi / 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_mass(middle, df) < confidence else (low, middle)
    return sqrt(df) * tan((low + high) / 2)


def _t_mass(angle: float, df: int) -> float:
    """P(|T| <= sqrt(df) * tan(angle))."""
    term, total = (cos(angle), 0.0) if df % 2 else (1.0, 0.0)
    for k in range(1 if df % 2 else 0, df - 1, 2):
        total += term
        term *= cos(angle) ** 2 * (k + 1) / (k + 2)
    return 2 / pi * (angle + sin(angle) * total) if df % 2 else sin(angle) * total


def _t_half_width(estimates: Sequence[float]) -> float:
    return student_t(len(estimates) - 1) * stdev(estimates) / sqrt(len(estimates))


def _order_statistic_interval(values: Sequence[float]) -> tuple[float, float]:
    """The k-th smallest and largest value, k as large as 95 % allows for a median (sign test)."""
    count, tail, k = len(values), 0, 0
    while 2 * (tail + comb(count, k)) / 2**count <= 1 - CONFIDENCE:
        tail += comb(count, k)
        k += 1
    ordered = sorted(values)
    return (ordered[k - 1], ordered[count - k]) if k else (-inf, inf)


def _block_bootstrap_interval(sessions: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Percentiles of the pooled median when runs of sqrt(n) neighbours are redrawn together inside each session.

    The draws depend on the lengths alone, so negating every value mirrors the interval exactly.
    """
    random = Random(_SEED)
    draws = sorted(median(_redraw(sessions, random)) for _ in range(_RESAMPLES))
    cut = int(_RESAMPLES * (1 - CONFIDENCE) / 2)
    return draws[cut], draws[-1 - cut]


def _redraw(sessions: Sequence[Sequence[float]], random: Random) -> list[float]:
    drawn: list[float] = []
    for session in sessions:
        length = isqrt(len(session))
        starts = random.choices(range(len(session) - length + 1), k=-(-len(session) // length))
        blocks = [value for start in starts for value in session[start : start + length]]
        drawn += blocks[: len(session)]
    return drawn


def _from_logs(centre: float, spans: Sequence[tuple[float, float]], kind: Kind) -> Ratio:
    return Ratio(exp(centre), exp(min(low for low, _ in spans)), exp(max(high for _, high in spans)), kind)


def _log_half_width(ratio: Ratio) -> float:
    return log(ratio.hi / ratio.lo) / 2 if ratio.lo > 0 and isfinite(ratio.hi) else inf
