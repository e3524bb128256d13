"""Which solution may replace the baseline, workload by workload: the rule that the score, `best mix` and apply share.

A solution may replace the baseline on a workload if it passed there and the lower bound of its paired ratio exceeds 1.
A barred solution may replace nothing: neither one that a judge caught (`record`), nor one that does worse on the
operator's hidden workloads than on the public ones it could be fitted to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum, inf
from typing import NamedTuple

from kernelmill.evaluator.admission import listed, moment
from kernelmill.evaluator.findings import Findings, gather
from kernelmill.evaluator.record import Finding, Record
from kernelmill.evaluator.statistics import ONE, Ratio, least_sure
from kernelmill.trace_schema import Definition, Solution, Trace, Workload

OVERFIT = 0.9  # a hidden speedup below this share of the public one, beyond both intervals, is suspect


class Choice(NamedTuple):
    """What to run on one workload; `solution` is None where the baseline stays."""

    workload: Workload
    solution: str | None
    why: str


def choose(
    definition: Definition,
    workloads: Iterable[Workload],
    traces: Iterable[Trace],
    device_model: str,
    *,
    solutions: Mapping[str, Solution] | None = None,
    accept_unsandboxed: bool = False,
) -> list[Choice]:
    """One choice per public workload, in their order; the arguments are `scoring.score`'s."""
    findings = gather(
        definition,
        workloads,
        traces,
        device_model=device_model,
        listings=listed(solutions),
        accept_unsandboxed=accept_unsandboxed,
    )
    return select(findings, barred(findings))


def select(findings: Findings, barred: Mapping[str, str]) -> list[Choice]:
    """Of those that may replace the baseline, the one with the highest lower bound: sure gains before lucky ones."""
    allowed = [record for record in findings.records.values() if record.solution not in barred]
    allowed.sort(key=lambda record: (moment(record.first_judged), record.solution))
    return [_choice(workload, allowed) for workload in findings.public]


def may_replace(finding: Finding | None) -> bool:
    """Whether a deployment would run the solution here instead of the baseline. Only a pass has a ratio."""
    return finding is not None and finding.ratio is not None and finding.ratio.lo > 1


def deployed_speedup(calls_ms: Mapping[str, float], found: Mapping[str, Finding]) -> Ratio:
    """Time of all calls on the baseline / time of all calls where the solution replaces it wherever it may."""
    return weighted_speedup(
        calls_ms, {uuid: finding.ratio for uuid, finding in found.items() if finding.ratio and may_replace(finding)}
    )


def calls_ms(workloads: Iterable[Workload], baseline_ms: Mapping[str, float]) -> dict[str, float]:
    """How long all calls of each workload take on the baseline; one without any baseline time has no share."""
    return {
        workload.uuid: baseline_ms[workload.uuid] * (1.0 if workload.weight is None else workload.weight)
        for workload in workloads
        if workload.uuid in baseline_ms
    }


def weighted_speedup(calls_ms: Mapping[str, float], ratios: Mapping[str, Ratio]) -> Ratio:
    """Time of all calls on the baseline / time of all calls with these ratios, 1 where there is none.

    The interval takes every workload's bound at once, as if all erred the same way: they share a machine and a sitting,
    so independence would claim too much.
    """
    replaced = [ratio for uuid, ratio in ratios.items() if calls_ms.get(uuid)]
    kind = least_sure(replaced)
    if kind == "exact":
        return ONE
    return Ratio(
        point=_speedup(calls_ms, {uuid: ratio.point for uuid, ratio in ratios.items()}),
        lo=_speedup(calls_ms, {uuid: ratio.lo for uuid, ratio in ratios.items()}),
        hi=_speedup(calls_ms, {uuid: ratio.hi for uuid, ratio in ratios.items()}),
        kind=kind,
    )


def _speedup(calls_ms: Mapping[str, float], factors: Mapping[str, float]) -> float:
    """By how much all calls are faster where each workload's are by its factor, 1 where there is none."""
    times = [share / factor if (factor := factors.get(uuid, 1.0)) else inf for uuid, share in calls_ms.items() if share]
    time = fsum(times)
    return fsum(calls_ms.values()) / time if time else inf if times else 1.0


def barred(findings: Findings) -> dict[str, str]:
    """Which solutions may be neither used nor ranked, by name, and why."""
    public, hidden = (calls_ms(part, findings.baseline_ms) for part in (findings.public, findings.hidden))
    uuids = [workload.uuid for workload in findings.hidden]
    charges = {
        name: record.barred or _overfit(record, uuids, public, hidden) for name, record in findings.records.items()
    }
    return {name: charge for name, charge in charges.items() if charge}


def _overfit(
    record: Record, uuids: Sequence[str], public: Mapping[str, float], hidden: Mapping[str, float]
) -> str | None:
    judged = [uuid for uuid in uuids if uuid in record.findings]
    if not judged:
        return None
    failed = sum(not record.findings[uuid].passed for uuid in judged)
    if failed:
        return f"SUSPECT (overfit): {failed} of {len(judged)} hidden workloads did not pass"
    ratios = {uuid: finding.ratio for uuid, finding in record.findings.items() if finding.ratio}
    mine = {uuid: hidden[uuid] for uuid in judged if uuid in hidden}
    least_seen = _speedup(public, {uuid: ratio.lo for uuid, ratio in ratios.items()})
    most_unseen = _speedup(mine, {uuid: ratio.hi for uuid, ratio in ratios.items()})
    if most_unseen < OVERFIT * least_seen:
        points = {uuid: ratio.point for uuid, ratio in ratios.items()}
        unseen, seen = _speedup(mine, points), _speedup(public, points)
        return f"SUSPECT (overfit): {unseen:.2f}x on hidden workloads, {seen:.2f}x on public ones"
    return None


def _choice(workload: Workload, records: Sequence[Record]) -> Choice:
    """`records` in order of first judgement: of equal lower bounds the earlier is taken."""
    judged = [(record, finding) for record in records if (finding := record.findings.get(workload.uuid))]
    faster = [(finding.ratio, record) for record, finding in judged if finding.ratio and may_replace(finding)]
    if faster:
        ratio, best = max(faster, key=lambda pair: pair[0].lo)
        why = f"{ratio.point:.2f}x, at least {ratio.lo:.2f}x: the highest lower bound of {len(judged)} judged"
        return Choice(workload, best.solution, why)
    if not judged:
        return Choice(workload, None, "no solution was judged on it")
    if not (passed := sum(finding.passed for _, finding in judged)):
        return Choice(workload, None, f"none of {len(judged)} judged passed")
    return Choice(workload, None, f"none of {passed} that passed is faster beyond its interval")
