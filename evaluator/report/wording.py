"""How numbers and names are written for people, on the terminal and on the page alike."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, log10

from kernelmill.evaluator.statistics import Ratio

MADE_SO = (
    "Every solution runs in a sandbox beside the definition's baseline in one sitting, and the judge alone makes the "
    "inputs, checks the outputs and holds the clock.",
    "Its deployed speedup is the time of all calls on the baseline divided by their time when the solution replaces it "
    "on every workload where it passed and is faster with the whole 95 % interval: nothing is gained by skipping or "
    "failing a workload, and a copy of the baseline scores exactly 1.00.",
    "Intervals come from three or more sessions with fresh processes; one marked † has fewer somewhere, and says "
    "nothing about the next session.",
    "A rank is one more than the number of entries whose lower bound exceeds this one's upper bound, so what the "
    "intervals cannot tell apart is a tie (=), listed by first judgement.",
    "One detected cheat or open suspicion removes a solution, best mix is what a deployment could install out of all "
    "that remain, and authors rank by the geometric mean over all definitions, those they left alone at 1.00.",
)


def times(ratio: float | None) -> str:
    """A ratio to three digits: 1.42×, 12.3×, 140×."""
    if ratio is None:
        return "–"
    if not isfinite(ratio):
        return "∞"
    digits = 2 if ratio < 9.995 else 1 if ratio < 99.95 else 0
    return f"{ratio:.{digits}f}×"


def bounds(ratio: Ratio) -> str:
    """Its interval, † if it holds within its sessions only; exactly known ones have none."""
    if ratio.kind == "exact":
        return "exactly"
    return between(ratio.lo, ratio.hi) + (" †" if ratio.kind == "within-session" else "")


def between(lo: float, hi: float) -> str:
    """An interval of a ratio: 1.38–1.47. One that leaves everything open is not printed."""
    if lo <= 0 and not isfinite(hi):
        return "too few pairs for an interval"
    return f"{times(lo).removesuffix('×')}–{times(hi).removesuffix('×')}"


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def place(rank: int | None, tied: bool) -> str:
    return "–" if rank is None else f"{rank}=" if tied else f"{rank}"


def gain(log_gain: float) -> str:
    """A log gain with its sign: +0.36."""
    return f"{log_gain:+.3f}"


def milliseconds(time_ms: float | None) -> str:
    """Four digits, in the unit that fits."""
    if time_ms is None:
        return "–"
    for unit, scale in (("s", 1e-3), ("ms", 1.0), ("µs", 1e3)):
        if time_ms * scale >= 1:
            return f"{time_ms * scale:.4g} {unit}"
    return f"{time_ms * 1e6:.4g} ns"


def rate(per_s: float | None, unit: str) -> str:
    """Three digits a second: 3.35 TB/s, 12.4 GFLOP/s."""
    if per_s is None:
        return "–"
    power = min(5, max(0, int(log10(per_s) // 3))) if per_s >= 1 else 0
    return f"{per_s / 1000**power:.3g} {('', 'k', 'M', 'G', 'T', 'P')[power]}{unit}/s"


def counts(verdicts: Mapping[str, int]) -> str:
    """9 passed, 1 timeout."""
    ordered = sorted(verdicts.items(), key=lambda pair: (pair[0] != "PASSED", pair[0]))
    return ", ".join(f"{count} {verdict.lower().replace('_', ' ')}" for verdict, count in ordered) or "not judged"


def some(number: int, noun: str) -> str:
    """1 solution, 2 solutions."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def day(timestamp: str | None) -> str:
    return (timestamp or "").split("T")[0]


def printable(text: str) -> str:
    """Foreign text with nothing that could steer a terminal or turn the reading direction."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
