"""Which solution may replace the baseline, workload by workload: the rule that the score, `best mix` and apply share.

A solution may replace the baseline on a workload if it passed there and the lower bound of its paired ratio exceeds 1.
A barred solution may replace nothing: neither one that a judge caught (`findings`), nor one that does worse on the
operator's hidden workloads than on the public ones it could be fitted to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import fsum, inf
from typing import NamedTuple

from kernelmill.evaluator.admission import moment
from kernelmill.evaluator.findings import Finding, Findings, Record, gather
from kernelmill.evaluator.statistics import ONE, Ratio, least_sure
from kernelmill.trace_schema import Definition, Solution, Trace, Workload

HIDDEN = "hidden"
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
    """One choice per public workload, in their order; the arguments are `findings.gather`'s."""
    return select(
        gather(
            definition,
            workloads,
            traces,
            device_model=device_model,
            solutions=solutions,
            accept_unsandboxed=accept_unsandboxed,
        )
    )


def select(findings: Findings) -> list[Choice]:
    """Of those that may replace the baseline, the one with the highest lower bound: sure gains before lucky ones."""
    allowed = [record for record in findings.records.values() if barred(record, findings) is None]
    return [_choice(workload, allowed) for workload in public(findings.workloads)]


def may_replace(finding: Finding | None) -> bool:
    """Whether a deployment would run the solution here instead of the baseline."""
    return finding is not None and finding.passed and finding.ratio is not None and finding.ratio.lo > 1


def deployed_speedup(
    workloads: Iterable[Workload], found: Mapping[str, Finding], baseline_ms: Mapping[str, float]
) -> Ratio:
    """Time of all calls on the baseline / time of all calls where the solution replaces it wherever it may."""
    replacing = {uuid: finding.ratio for uuid, finding in found.items() if finding.ratio and may_replace(finding)}
    return weighted_speedup(workloads, replacing, baseline_ms)


def weighted_speedup(
    workloads: Iterable[Workload], ratios: Mapping[str, Ratio], baseline_ms: Mapping[str, float]
) -> Ratio:
    """Time of all calls on the baseline / time of all calls with these ratios, 1 where there is none.

    A workload without any baseline time has no share. The interval takes every workload's bound at once, as if all
    erred the same way: they share a machine and a sitting, so independence would claim too much.
    """
    timed = [workload for workload in workloads if workload.uuid in baseline_ms]
    shares = [baseline_ms[workload.uuid] * (1.0 if workload.weight is None else workload.weight) for workload in timed]
    terms = [ratios.get(workload.uuid, ONE) for workload in timed]
    kind = least_sure(terms)
    if kind == "exact" or fsum(shares) == 0:
        return ONE

    def speedup(bounds: Iterable[float]) -> float:
        time = fsum(share / bound if bound else inf for share, bound in zip(shares, bounds, strict=True) if share)
        return fsum(shares) / time if time else inf

    return Ratio(
        point=speedup(ratio.point for ratio in terms),
        lo=speedup(ratio.lo for ratio in terms),
        hi=speedup(ratio.hi for ratio in terms),
        kind=kind,
    )


def barred(record: Record, findings: Findings) -> str | None:
    """Why the solution may be neither used nor ranked, or None."""
    return record.barred or _overfit(record, findings)


def public(workloads: Iterable[Workload]) -> list[Workload]:
    """The workloads that make the score; hidden ones are a gate and never a term, so anyone can recompute it."""
    return [workload for workload in workloads if workload.split != HIDDEN]


def _overfit(record: Record, findings: Findings) -> str | None:
    hidden = [workload for workload in findings.workloads if workload.split == HIDDEN]
    judged = [workload for workload in hidden if workload.uuid in record.findings]
    failed = [workload for workload in judged if not record.findings[workload.uuid].passed]
    if failed:
        return f"SUSPECT (overfit): {len(failed)} of {len(judged)} hidden workloads did not pass"
    ratios = {uuid: finding.ratio for uuid, finding in record.findings.items() if finding.ratio}
    seen = weighted_speedup(public(findings.workloads), ratios, findings.baseline_ms)
    unseen = weighted_speedup(judged, ratios, findings.baseline_ms)
    if judged and unseen.hi < OVERFIT * seen.lo:
        return f"SUSPECT (overfit): {unseen.point:.2f}x on hidden workloads, {seen.point:.2f}x on public ones"
    return None


def _choice(workload: Workload, records: list[Record]) -> Choice:
    judged = [(record, finding) for record in records if (finding := record.findings.get(workload.uuid))]
    passed = [(record, finding) for record, finding in judged if finding.passed]
    faster = [
        (finding.ratio, record) for record, finding in passed if finding.ratio is not None and may_replace(finding)
    ]
    if faster:
        ratio, best = min(faster, key=lambda pair: (-pair[0].lo, moment(pair[1].first_judged), pair[1].solution))
        why = f"{ratio.point:.2f}x, at least {ratio.lo:.2f}x: the highest lower bound of {len(judged)} judged"
        return Choice(workload, best.solution, why)
    if not judged:
        return Choice(workload, None, "no solution was judged on it")
    if not passed:
        return Choice(workload, None, f"none of {len(judged)} judged passed")
    return Choice(workload, None, f"none of {len(passed)} that passed is faster beyond its interval")
