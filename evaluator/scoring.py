"""The score: a pure function of stored traces, so that anyone can recompute a leaderboard.

Per definition and device model an entry's score is its deployed speedup (`selection`): what a deployment would gain
that runs the solution where it is surely faster and the baseline elsewhere. So skipping or failing a workload never
helps, and a kernel identical to the baseline scores exactly 1. Beside it stand pass rate, coverage, geometric mean,
fast_p and the share of the roofline. Rank = 1 + the entries whose lower bound exceeds this one's upper bound: what the
intervals can't tell apart is a tie, in order of first judgement. Barred solutions and untimed ones have no rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum

from kernelmill.evaluator.admission import Judged, in_time, moment
from kernelmill.evaluator.admission import device_models as device_models
from kernelmill.evaluator.findings import Finding, Findings, Record, gather
from kernelmill.evaluator.selection import Choice, barred, deployed_speedup, public, select
from kernelmill.evaluator.statistics import ONE, Ratio, geometric_mean
from kernelmill.trace_schema import Definition, Solution, Trace, Workload


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of a definition's board.

    `ratios` has the baseline's time / the solution's time of every workload, 0 where it failed or was not timed;
    `off_board` says why it was removed; without that and without a rank, nothing of it was timed.
    """

    solution: str
    solution_hash: str | None = None
    author: str | None = None
    language: str | None = None
    is_baseline: bool = False
    off_board: str | None = None
    rank: int | None = None
    tied: bool = False
    speedup: Ratio = ONE
    pass_rate: float | None = None
    coverage: float = 0.0
    geomean: float | None = None
    roofline: float | None = None
    verdicts: Mapping[str, int] = field(default_factory=dict)
    ratios: Mapping[str, float] = field(default_factory=dict)
    findings: Mapping[str, Finding] = field(default_factory=dict)
    first_judged: str | None = None

    @property
    def timed(self) -> int:
        """On how many workloads it has a ratio."""
        return sum(ratio > 0 for ratio in self.ratios.values())


@dataclass(frozen=True, slots=True)
class BestMix:
    """What a deployment could install out of all solutions."""

    speedup: Ratio
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Conditions:
    """How the counted traces were made: sorted distinct values; times are the first and the last judgement's."""

    judge_versions: tuple[str, ...] = ()
    clocks: tuple[str, ...] = ()
    sandboxes: tuple[str, ...] = ()
    first_judged: str | None = None
    last_judged: str | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """One definition's board on one device model; `entries` in order, ranked ones first, barred ones last."""

    definition: str
    op_type: str
    device_model: str
    workloads: tuple[Workload, ...]
    baseline_ms: Mapping[str, float]
    entries: tuple[Entry, ...]
    best_mix: BestMix
    conditions: Conditions
    ignored: Mapping[str, int]


def score(
    definition: Definition,
    workloads: Iterable[Workload],
    traces: Iterable[Trace],
    *,
    device_model: str,
    solutions: Mapping[str, Solution] | None = None,
    accept_unsandboxed: bool = False,
) -> Score:
    """The board of one definition on one device model.

    `solutions` (by name) gives authors and languages, and says which sources are current: traces of other sources are
    ignored. Without it the source last judged under a name is current.
    """
    findings = gather(
        definition,
        workloads,
        traces,
        device_model=device_model,
        solutions=solutions,
        accept_unsandboxed=accept_unsandboxed,
    )
    entries = [_entry(record, findings, (solutions or {}).get(name)) for name, record in findings.records.items()]
    workloads, times = public(findings.workloads), findings.baseline_ms
    return Score(
        definition=definition.name,
        op_type=definition.op_type,
        device_model=device_model,
        workloads=tuple(workloads),
        baseline_ms={each.uuid: times[each.uuid] for each in workloads if each.uuid in times},
        entries=tuple(_ranked(_with_baseline(entries, findings, (solutions or {}).get(findings.baseline or "")))),
        best_mix=_best_mix(findings),
        conditions=_conditions(findings.counted),
        ignored={str(reason): count for reason, count in findings.ignored.items()},
    )


def fast_p(ratios: Iterable[float], p: float) -> float:
    """Share of workloads solved more than `p` times as fast as the baseline; p = 0 gives the share solved and timed."""
    values = list(ratios)
    return sum(ratio > p for ratio in values) / len(values) if values else 0.0


def _entry(record: Record, findings: Findings, solution: Solution | None) -> Entry:
    workloads = public(findings.workloads)
    off_board = barred(record, findings)
    found = {
        workload.uuid: record.findings[workload.uuid] for workload in workloads if workload.uuid in record.findings
    }
    ratios = {} if off_board else {uuid: finding.ratio.point for uuid, finding in found.items() if finding.ratio}
    return Entry(
        solution=record.solution,
        solution_hash=record.solution_hash,
        author=solution.author if solution else None,
        language=str(solution.spec.language) if solution else None,
        is_baseline=record.solution == findings.baseline,
        off_board=off_board,
        speedup=ONE if off_board else deployed_speedup(workloads, found, findings.baseline_ms),
        pass_rate=_share(sum(finding.passed for finding in found.values()), workloads),
        coverage=_share(len(found), workloads),
        geomean=geometric_mean(list(ratios.values())) if ratios else None,
        roofline=None if off_board else _roofline(workloads, found),
        verdicts=dict(sorted(Counter(str(finding.verdict) for finding in found.values()).items())),
        ratios={workload.uuid: ratios.get(workload.uuid, 0.0) for workload in workloads},
        findings=found,
        first_judged=record.first_judged,
    )


def _with_baseline(entries: list[Entry], findings: Findings, baseline: Solution | None) -> list[Entry]:
    """The baseline is a row of exactly 1, judged as a solution itself or only beside the others."""
    if findings.baseline is None:
        return entries
    own = [
        replace(
            entry, speedup=ONE, geomean=1.0, ratios={uuid: float(ratio > 0) for uuid, ratio in entry.ratios.items()}
        )
        if entry.is_baseline
        else entry
        for entry in entries
    ]
    if any(entry.is_baseline for entry in own):
        return own
    workloads = public(findings.workloads)
    timed = {workload.uuid: float(workload.uuid in findings.baseline_ms) for workload in workloads}
    row = Entry(
        solution=findings.baseline,
        solution_hash=baseline.hash() if baseline else None,
        author=baseline.author if baseline else None,
        language=str(baseline.spec.language) if baseline else None,
        is_baseline=True,
        coverage=_share(int(sum(timed.values())), workloads),
        geomean=1.0,
        ratios=timed,
    )
    return [*own, row]


def _ranked(entries: Sequence[Entry]) -> list[Entry]:
    rankable = [entry.off_board is None and (entry.is_baseline or entry.timed > 0) for entry in entries]
    ranks = ranks_of([entry.speedup if able else None for entry, able in zip(entries, rankable, strict=True)])
    ranked = [replace(entry, rank=rank, tied=tied) for entry, (rank, tied) in zip(entries, ranks, strict=True)]
    return sorted(ranked, key=_order)


def _order(entry: Entry) -> tuple[object, ...]:
    first = moment(entry.first_judged or "")
    return (entry.off_board is not None, *place(entry.rank), not entry.is_baseline, first, entry.solution)


def place(rank: int | None) -> tuple[bool, int]:
    """Sorts by rank, the unranked last."""
    return rank is None, rank or 0


def ranks_of(intervals: Sequence[Ratio | None]) -> list[tuple[int | None, bool]]:
    """(rank, whether it is shared) of each; (None, False) where there is no interval."""
    lows = [ratio.lo for ratio in intervals if ratio]
    ranks = [1 + sum(low > ratio.hi for low in lows) if ratio else None for ratio in intervals]
    held = Counter(ranks)
    return [(rank, rank is not None and held[rank] > 1) for rank in ranks]


def _best_mix(findings: Findings) -> BestMix:
    choices = select(findings)
    chosen = {
        choice.workload.uuid: findings.records[choice.solution].findings[choice.workload.uuid]
        for choice in choices
        if choice.solution is not None
    }
    return BestMix(deployed_speedup(public(findings.workloads), chosen, findings.baseline_ms), tuple(choices))


def _roofline(workloads: Sequence[Workload], found: Mapping[str, Finding]) -> float | None:
    """Least time that the device allows / time taken, over all calls where both are known."""
    least, taken = [], []
    for workload in workloads:
        finding = found.get(workload.uuid)
        if finding and finding.solution_ms and finding.roofline_ms:
            weight = 1.0 if workload.weight is None else workload.weight
            least.append(weight * finding.roofline_ms)
            taken.append(weight * finding.solution_ms)
    return fsum(least) / fsum(taken) if fsum(taken) else None


def _share(count: int, workloads: Sequence[Workload]) -> float:
    return count / len(workloads) if workloads else 0.0


def _conditions(counted: Sequence[Judged]) -> Conditions:
    times = [judged.evaluation.timestamp for judged in sorted(counted, key=in_time)]
    clocks = {judged.evaluation.evidence.clock for judged in counted if judged.evaluation.evidence}
    return Conditions(
        judge_versions=_distinct(judged.subject.judge_version for judged in counted),
        clocks=_distinct(clocks),
        sandboxes=_distinct(judged.evaluation.environment.sandbox for judged in counted),
        first_judged=times[0] if times else None,
        last_judged=times[-1] if times else None,
    )


def _distinct(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted({value for value in values if value}))
