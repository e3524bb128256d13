"""The score: a pure function of stored traces, so that anyone can recompute a leaderboard.

Per definition and device model an entry's score is its deployed speedup (`selection`): what a deployment would gain
that runs the solution where it is surely faster and the baseline elsewhere. So skipping or failing a workload never
helps, and a kernel identical to the baseline scores exactly 1. Beside it stand pass rate, coverage, geometric mean,
fast_p and the share of the roofline. Rank = 1 + the entries whose lower bound exceeds this one's upper bound: what the
intervals can't tell apart is a tie, in order of first judgement. Barred solutions and untimed ones have no rank.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum

from kernelmill.evaluator.admission import Listing, listed, moment
from kernelmill.evaluator.admission import device_models as device_models
from kernelmill.evaluator.conditions import Conditions
from kernelmill.evaluator.findings import Findings, gather
from kernelmill.evaluator.record import Finding, Record
from kernelmill.evaluator.selection import Choice, barred, calls_ms, deployed_speedup, select
from kernelmill.evaluator.statistics import ONE, Ratio, geometric_mean
from kernelmill.trace_schema import Definition, Solution, Trace, Verdict, Workload


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
    listings = listed(solutions)
    findings = gather(
        definition,
        workloads,
        traces,
        device_model=device_model,
        listings=listings,
        accept_unsandboxed=accept_unsandboxed,
    )
    return score_findings(
        findings,
        definition=definition.name,
        op_type=definition.op_type,
        device_model=device_model,
        listings=listings or {},
    )


def score_findings(
    findings: Findings, *, definition: str, op_type: str, device_model: str, listings: Mapping[str, Listing]
) -> Score:
    """The board of what was found, from nothing (`score`) or out of stored shares (`Findings.of`).

    `listings` (by name) gives authors, languages and the baseline's hash.
    """
    removed, weights = barred(findings), calls_ms(findings.public, findings.baseline_ms)
    entries = [
        _entry(record, findings, weights, removed.get(name), listings.get(name))
        for name, record in findings.records.items()
    ]
    if findings.baseline is not None:
        entries = _with_baseline(entries, findings.baseline, findings, listings.get(findings.baseline))
    return Score(
        definition=definition,
        op_type=op_type,
        device_model=device_model,
        workloads=findings.public,
        baseline_ms={uuid: findings.baseline_ms[uuid] for uuid in weights},
        entries=tuple(_ranked(entries)),
        best_mix=_best_mix(findings, weights, removed),
        conditions=findings.conditions,
        ignored={str(reason): count for reason, count in findings.ignored.items()},
    )


def fast_p(ratios: Iterable[float], p: float) -> float:
    """Share of workloads solved more than `p` times as fast as the baseline; p = 0 gives the share solved and timed."""
    values = list(ratios)
    return sum(ratio > p for ratio in values) / len(values) if values else 0.0


def _entry(
    record: Record,
    findings: Findings,
    weights: Mapping[str, float],
    off_board: str | None,
    listing: Listing | None,
) -> Entry:
    workloads = findings.public
    found = {
        workload.uuid: record.findings[workload.uuid] for workload in workloads if workload.uuid in record.findings
    }
    ratios = {} if off_board else {uuid: finding.ratio.point for uuid, finding in found.items() if finding.ratio}
    verdicts = Counter([finding.verdict for finding in found.values()])
    return Entry(
        solution=record.solution,
        solution_hash=record.solution_hash,
        author=listing.author if listing else None,
        language=listing.language if listing else None,
        is_baseline=record.solution == findings.baseline,
        off_board=off_board,
        speedup=ONE if off_board else deployed_speedup(weights, found),
        pass_rate=_share(verdicts[Verdict.PASSED], workloads),
        coverage=_share(len(found), workloads),
        geomean=geometric_mean(list(ratios.values())) if ratios else None,
        roofline=None if off_board else _roofline(workloads, found),
        verdicts=dict(sorted((verdict.value, count) for verdict, count in verdicts.items() if count)),
        ratios={workload.uuid: ratios.get(workload.uuid, 0.0) for workload in workloads},
        findings=found,
        first_judged=record.first_judged,
    )


def _with_baseline(entries: list[Entry], name: str, findings: Findings, listing: Listing | None) -> list[Entry]:
    """The baseline is a row of exactly 1, judged as a solution itself or only beside the others."""
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
    timed = {workload.uuid: float(workload.uuid in findings.baseline_ms) for workload in findings.public}
    row = Entry(
        solution=name,
        solution_hash=listing.hash if listing else None,
        author=listing.author if listing else None,
        language=listing.language if listing else None,
        is_baseline=True,
        coverage=_share(int(sum(timed.values())), findings.public),
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
    lows = sorted(ratio.lo for ratio in intervals if ratio)
    ranks = [1 + len(lows) - bisect_right(lows, ratio.hi) if ratio else None for ratio in intervals]
    held = Counter(ranks)
    return [(rank, rank is not None and held[rank] > 1) for rank in ranks]


def _best_mix(findings: Findings, weights: Mapping[str, float], removed: Mapping[str, str]) -> BestMix:
    choices = select(findings, removed)
    chosen = {
        choice.workload.uuid: findings.records[choice.solution].findings[choice.workload.uuid]
        for choice in choices
        if choice.solution is not None
    }
    return BestMix(deployed_speedup(weights, chosen), tuple(choices))


def _roofline(workloads: Sequence[Workload], found: Mapping[str, Finding]) -> float | None:
    """Least time that the device allows / time taken, over all calls where both are known."""
    least, taken = [], []
    for workload in workloads:
        finding = found.get(workload.uuid)
        if finding and finding.solution_ms and finding.roofline_ms:
            weight = 1.0 if workload.weight is None else workload.weight
            least.append(weight * finding.roofline_ms)
            taken.append(weight * finding.solution_ms)
    total = fsum(taken)
    return fsum(least) / total if total else None


def _share(count: int, workloads: Sequence[Workload]) -> float:
    return count / len(workloads) if workloads else 0.0
