"""What the judgements of one solution on one device model say together, workload by workload.

- Only the newest judge counts (the first number of its version), and of it one trace per measurement session.
- A wrong answer is a wrong answer: no pass of the same source under the same judge undoes it. Other failures (a time
  limit, a crash, a compiler out of memory) may be the host's, so there the latest judgement decides.
- Three sittings or more are pooled, fewer give way to the latest: never the luckiest.
- One CHEAT_DETECTED, on whatever device or workload and under whatever name, bars a source for good; a SUSPECT bars it
  until a newer judge has looked at that workload again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from statistics import median
from typing import Any, Self

from kernelmill.evaluator.admission import Judged, in_time
from kernelmill.evaluator.statistics import MIN_SESSIONS, ONE, Kind, Ratio, pooled_ratio
from kernelmill.trace_schema import Verdict

WRONG = frozenset(
    {
        Verdict.INCORRECT_SHAPE,
        Verdict.INCORRECT_DTYPE,
        Verdict.INCORRECT_NUMERICAL,
        Verdict.RULE_VIOLATION,
        Verdict.SUSPECT,
        Verdict.CHEAT_DETECTED,
    }
)

_VERDICTS = {str(verdict): verdict for verdict in Verdict}  # a look-up here takes a tenth of the enum's


@dataclass(slots=True, unsafe_hash=True)  # nobody changes one; frozen ones take three times as long to make
class Finding:
    """One solution on one workload; `ratio` is None unless it passed and was timed. Times in milliseconds."""

    verdict: Verdict
    reason: str | None = None
    ratio: Ratio | None = None
    solution_ms: float | None = None
    baseline_ms: float | None = None
    roofline_ms: float | None = None
    traces: int = 1

    @property
    def passed(self) -> bool:
        return self.verdict is Verdict.PASSED

    def as_list(self) -> list[Any]:
        ratio = self.ratio and self.ratio.as_list()
        times = self.solution_ms, self.baseline_ms, self.roofline_ms
        return [str(self.verdict), self.reason, ratio, *times, self.traces]


@dataclass(frozen=True, slots=True)
class Record:
    """One solution's findings by workload uuid; `barred` says why it may be neither used nor ranked."""

    solution: str
    solution_hash: str
    first_judged: str
    findings: Mapping[str, Finding]
    barred: str | None = None

    @property
    def traces(self) -> int:
        """How many traces the findings rest on."""
        return sum(finding.traces for finding in self.findings.values())

    def as_list(self) -> list[Any]:
        findings = [[uuid, *finding.as_list()] for uuid, finding in self.findings.items()]
        return [self.solution, self.solution_hash, self.first_judged, self.barred, findings]

    @classmethod
    def from_list(cls, values: Sequence[Any]) -> Self:
        solution, source, first_judged, barred, rows = values
        findings = {
            uuid: Finding(_VERDICTS[verdict], reason, ratio and Ratio.from_list(ratio), mine, beside, least, traces)
            for uuid, verdict, reason, ratio, mine, beside, least, traces in rows
        }
        return cls(solution, source, first_judged, findings, barred)


def record_of(name: str, counted: Sequence[Judged], trusted: Sequence[Judged]) -> Record:
    """`counted` is what counts of the name's own; `trusted` holds all of its source, of any name, device and age."""
    source = counted[0].subject.solution_hash
    same = [judged for judged in trusted if judged.subject.solution_hash == source]
    first = min((judged for judged in same if judged.solution == name), key=in_time)
    cells: dict[str, list[Judged]] = defaultdict(list)
    for judged in counted:
        cells[judged.workload].append(judged)
    return Record(
        solution=name,
        solution_hash=source or "",
        first_judged=first.evaluation.timestamp,
        findings={workload: combine(cells[workload]) for workload in sorted(cells)},
        barred=_barred(same),
    )


def combine(judgements: Sequence[Judged]) -> Finding:
    """What the judgements of one solution on one workload say together; the module's docstring has the rules."""
    ordered = sorted(judgements, key=lambda judged: judged.order)
    newest = [judged for judged in ordered if judged.judge == ordered[-1].judge]
    wrong = [judged for judged in newest if judged.verdict in WRONG]
    latest = (wrong or newest)[-1]
    if latest.verdict is not Verdict.PASSED:
        return Finding(latest.verdict, latest.evaluation.reason)
    sittings = {judged.subject.session or at: judged for at, judged in enumerate(newest) if _ratio(judged)}
    timed = sorted(sittings.values(), key=lambda judged: judged.order)
    if not timed:
        return Finding(Verdict.PASSED, latest.evaluation.reason)
    return _timed(timed if len(timed) >= MIN_SESSIONS else timed[-1:])


def _timed(judgements: Sequence[Judged]) -> Finding:
    ratios = [ratio for judged in judgements if (ratio := _ratio(judged))]
    statistics = [stats for judged in judgements if (stats := judged.evaluation.statistics)]
    latest = judgements[-1].evaluation
    return Finding(
        verdict=Verdict.PASSED,
        reason=latest.reason,
        ratio=pooled_ratio(ratios) if len(ratios) >= MIN_SESSIONS else ratios[-1],
        solution_ms=_middle(stats.median_ms for stats in statistics),
        baseline_ms=_middle(stats.baseline_median_ms for stats in statistics),
        roofline_ms=latest.evidence.roofline_ms if latest.evidence else None,
        traces=len(judgements),
    )


def _ratio(judged: Judged) -> Ratio | None:
    """Exactly 1 where the source is the baseline's own; (0, inf) around a ratio that came without an interval."""
    statistics, subject = judged.evaluation.statistics, judged.subject
    if judged.verdict is not Verdict.PASSED or statistics is None or not statistics.ratio:
        return None
    if subject.solution_hash == subject.baseline_hash:
        return ONE
    lo, hi = statistics.ratio_ci95 or (0.0, inf)
    if not lo <= statistics.ratio <= hi:
        lo, hi = 0.0, inf
    kind: Kind = "sessions" if (statistics.sessions or 0) >= MIN_SESSIONS else "within-session"
    return Ratio(statistics.ratio, lo, hi, kind)


def _middle(times_ms: Iterable[float | None]) -> float | None:
    known = [time for time in times_ms if time is not None and isfinite(time) and time > 0]
    return median(known) if known else None


def _barred(judgements: Sequence[Judged]) -> str | None:
    """Why the source that all these are about may not be used, or None."""
    in_order = sorted(judgements, key=lambda judged: judged.order)
    newest = {(judged.workload, judged.device_model): judged.judge for judged in in_order}
    cheats = [judged for judged in in_order if judged.verdict is Verdict.CHEAT_DETECTED]
    suspects = [
        judged
        for judged in in_order
        if judged.verdict is Verdict.SUSPECT and judged.judge == newest[judged.workload, judged.device_model]
    ]
    if not (charges := cheats or suspects):
        return None
    reason = charges[0].evaluation.reason
    return f"{charges[0].verdict} on {charges[0].workload}" + (f": {reason}" if reason else "")
