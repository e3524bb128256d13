"""From an outcome to a Trace: status, errors, times and evidence as the schema wants them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime

from kernelmill.evaluator.cost import Work
from kernelmill.evaluator.devices import Device
from kernelmill.evaluator.judge import Outcome
from kernelmill.evaluator.options import JUDGE_VERSION
from kernelmill.evaluator.statistics import paired_ratio
from kernelmill.trace_schema import (
    Correctness,
    Definition,
    Evaluation,
    Evidence,
    Performance,
    Solution,
    Statistics,
    Status,
    Subject,
    Trace,
    Verdict,
    Workload,
)

CLOCK = "judge (thaw to done)"
GRAPH_CLOCK = "judge (graph replay: slope of two lengths, caches flushed, weights rotated)"
EAGER_CLOCK = "judge (eager burst: slope of two lengths, caches flushed, weights rotated)"
NO_CLOCK = "none (triton interpreter)"


@dataclass(frozen=True, slots=True)
class Sitter:
    """What all traces of one sitting have in common."""

    definition: Definition
    baseline: Solution
    session: str
    sandbox: str
    device: Device


@dataclass(frozen=True, slots=True)
class Measured:
    """What the workload's table knows. None where a solution never came to a table."""

    reference_s: float
    null_s: float
    work: Work
    clock: str = CLOCK


def make_trace(
    sitter: Sitter, workload: Workload, solution: Solution, outcome: Outcome, measured: Measured | None
) -> Trace:
    status = outcome.verdict.status
    times = statistics(sitter, outcome) if status is Status.PASSED and outcome.pairs else None
    evaluation = Evaluation(
        status=status,
        environment=sitter.device.environment(sitter.sandbox, measured.null_s if measured else 0.0),
        timestamp=datetime.now(UTC).isoformat(timespec="milliseconds"),
        log=outcome.log,
        correctness=_correctness(outcome) if status in (Status.PASSED, Status.INCORRECT_NUMERICAL) else None,
        performance=_performance(times, measured) if status is Status.PASSED else None,
        subject=Subject(
            solution_hash=solution.hash(),
            definition_hash=sitter.definition.hash(),
            workload_hash=workload.hash(),
            baseline_hash=sitter.baseline.hash(),
            judge_version=JUDGE_VERSION,
            session=sitter.session,
        ),
        verdict=outcome.verdict,
        reason=outcome.reason,
        statistics=times,
        evidence=_evidence(sitter.device, outcome, measured, timed=times is not None),
    )
    return Trace(definition=sitter.definition.name, workload=workload, solution=solution.name, evaluation=evaluation)


def statistics(sitter: Sitter, outcome: Outcome) -> Statistics:
    solution = sorted(mine for session in outcome.pairs for mine, _ in session)
    baseline = sorted(other for session in outcome.pairs for _, other in session)
    ratio = paired_ratio([[math.log(other / mine) for mine, other in session] for session in outcome.pairs])
    return Statistics(
        n=len(solution),
        sessions=len(outcome.pairs),
        median_ms=_ms(_quantile(solution, 0.5)),
        p10_ms=_ms(_quantile(solution, 0.1)),
        p90_ms=_ms(_quantile(solution, 0.9)),
        baseline=sitter.baseline.name,
        baseline_median_ms=_ms(_quantile(baseline, 0.5)),
        ratio=ratio.point,
        ratio_ci95=(ratio.lo, ratio.hi),
    )


def below_floor(outcome: Outcome, work: Work, device: Device) -> str | None:
    """Why the times can't be the work's, or None.

    Their interval must lie below the floor as a whole: few bursts scatter. Who is quick in some calls only, so that it
    does not, has an interval of the ratio as wide, and wins nothing by its lower end.
    """
    sessions = [[mine for mine, _ in session] for session in outcome.pairs if session]
    times = sorted(mine for session in sessions for mine in session)
    floor = device.floor_s(work)
    if not times:
        return None
    surely = paired_ratio([[math.log(mine) for mine in session] for session in sessions]).hi
    if min(surely, times[-1]) >= floor:
        return None
    return f"a median of {_ms(_quantile(times, 0.5))} ms is below the physical floor of {_ms(floor)} ms"


def with_floor(outcome: Outcome, measured: Measured, device: Device) -> Outcome:
    """Times that no processor can reach are not the work's times, however right the outputs are."""
    impossible = below_floor(outcome, measured.work, device) if outcome.verdict is Verdict.PASSED else None
    if impossible:
        outcome.reject(Verdict.SUSPECT, f"below_floor: {impossible}", outcome.log)
    return outcome


def _correctness(outcome: Outcome) -> Correctness:
    return Correctness(
        max_relative_error=outcome.max_relative_error,
        max_absolute_error=outcome.max_absolute_error,
        extra=outcome.extra or None,
    )


def _performance(times: Statistics | None, measured: Measured | None) -> Performance:
    """Against the reference, as the public schema means it; empty where nothing was timed."""
    if times is None or measured is None or not times.median_ms:
        return Performance()
    reference_ms = _ms(measured.reference_s)
    return Performance(
        latency_ms=times.median_ms,
        reference_latency_ms=reference_ms,
        speedup_factor=reference_ms / times.median_ms,
    )


def _evidence(device: Device, outcome: Outcome, measured: Measured | None, *, timed: bool) -> Evidence | None:
    if measured is None:
        return None
    if not timed:
        clock = NO_CLOCK if outcome.verdict is Verdict.PASSED else measured.clock
        return Evidence(clock=clock, verified_calls=outcome.verified_calls)
    return Evidence(
        clock=measured.clock,
        roofline_ms=_ms(device.roofline_s(measured.work)),
        floor_ms=_ms(device.floor_s(measured.work)),
        verified_calls=outcome.verified_calls,
    )


def _ms(seconds: float) -> float:
    return float(f"{1e3 * seconds:.6g}")


def _quantile(ordered: list[float], share: float) -> float:
    """Linear interpolation between the neighbours."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
