"""What became of a candidate, in words that may be shown to whoever wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import fsum
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from kernelmill.evaluator.scoring import score
from kernelmill.trace_schema import Definition, Solution, Trace, Verdict, Workload

Fidelity = Literal["quick", "full"]
"""quick: a few workloads, one session; full: every workload, as for the board."""
MAX_CAUSE_CHARS = 400
MAX_LOG_LINES = 40
MAX_LOG_CHARS = 4000


class Gate(StrEnum):
    """Where a candidate stopped, in the order in which gates are met."""

    PARSE = "PARSE"
    POLICY = "POLICY"
    COMPILE = "COMPILE"
    RUNTIME = "RUNTIME"
    TIMEOUT = "TIMEOUT"
    SHAPE = "SHAPE"
    DTYPE = "DTYPE"
    NUMERIC = "NUMERIC"
    CHEAT = "CHEAT"
    UNJUDGED = "UNJUDGED"
    SLOWER = "SLOWER"
    PASSED = "PASSED"


GATES = {
    Verdict.PASSED: Gate.PASSED,
    Verdict.INCORRECT_SHAPE: Gate.SHAPE,
    Verdict.INCORRECT_DTYPE: Gate.DTYPE,
    Verdict.INCORRECT_NUMERICAL: Gate.NUMERIC,
    Verdict.RUNTIME_ERROR: Gate.RUNTIME,
    Verdict.RESOURCE_EXCEEDED: Gate.RUNTIME,
    Verdict.COMPILE_ERROR: Gate.COMPILE,
    Verdict.TIMEOUT: Gate.TIMEOUT,
    Verdict.CHEAT_DETECTED: Gate.CHEAT,
    Verdict.SUSPECT: Gate.CHEAT,
    Verdict.RULE_VIOLATION: Gate.POLICY,
    Verdict.INVALID_SUBMISSION: Gate.POLICY,
}
WITHHELD = {
    Gate.CHEAT: "its results or times were not accepted as those of an honest computation of every call",
    Gate.POLICY: "it does not keep to the rules for solutions",
}
"""What is said of gates whose reasons would teach how the judge looks."""


class Frozen(BaseModel):
    """A record of a run: immutable, and nothing unknown in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Timing(Frozen):
    """One workload that passed. Times in milliseconds; `ratio` is baseline / solution with its 95 % interval."""

    workload: str
    axes: dict[str, int]
    ms: float
    baseline_ms: float
    ratio: float
    lo: float
    hi: float
    roofline_ms: float | None = None


class Outcome(Frozen):
    """What the judge said of one candidate.

    `gain` is time of all calls on the baseline / on the candidate; `speedup`, `lo` and `hi` are the board's deployed
    speedup and its interval. All three are 1 where it did not pass.
    """

    gate: Gate
    fidelity: Fidelity = "full"
    cause: str = ""
    log: str = ""
    judged: int = 0
    expected: int = 0
    timings: tuple[Timing, ...] = ()
    gain: float = 1.0
    speedup: float = 1.0
    lo: float = 1.0
    hi: float = 1.0
    device_s: float = 0.0

    @property
    def passed(self) -> bool:
        return self.gate in (Gate.PASSED, Gate.SLOWER)

    @property
    def improved(self) -> bool:
        """Passed on every workload, and surely faster than the baseline for whoever deploys it."""
        return self.gate is Gate.PASSED and self.fidelity == "full" and self.lo > 1

    @property
    def merit(self) -> tuple[bool, bool, float, float]:
        """Sorts outcomes, the best last: correct ones by their speed, then the others by how far they came."""
        place = list(Gate).index(self.gate) / len(Gate)
        return self.passed, self.passed and self.fidelity == "full", self.gain if self.passed else place, self.lo


class Bench(NamedTuple):
    """What solutions are judged on, and where."""

    definition: Definition
    workloads: Sequence[Workload]
    device_model: str
    accept_unsandboxed: bool = False


def outcome_of(
    solution: Solution, bench: Bench, traces: Sequence[Trace], *, fidelity: Fidelity, device_s: float = 0.0
) -> Outcome:
    """The outcome that these traces of one solution tell of; the score is the board's own."""
    judged = [trace for trace in traces if trace.evaluation]
    blank = Outcome(
        gate=Gate.UNJUDGED,
        fidelity=fidelity,
        judged=len(judged),
        expected=len(bench.workloads),
        device_s=device_s,
        cause=f"judged on {len(judged)} of {len(bench.workloads)} workloads",
    )
    for trace in judged:
        evaluation = trace.evaluation
        assert evaluation is not None
        gate = GATES[evaluation.effective_verdict]
        if gate is not Gate.PASSED:
            cause = WITHHELD.get(gate) or f"{evaluation.reason or gate.value} (axes {_axes(trace.workload)})"
            log = "" if gate in WITHHELD else shortened(evaluation.log)
            return blank.model_copy(update={"gate": gate, "cause": cause[:MAX_CAUSE_CHARS], "log": log})
    return _passed(solution, bench, judged, blank) if len(judged) == len(bench.workloads) else blank


def _passed(solution: Solution, bench: Bench, judged: Sequence[Trace], blank: Outcome) -> Outcome:
    board = score(
        bench.definition,
        bench.workloads,
        judged,
        device_model=bench.device_model,
        solutions={solution.name: solution},
        accept_unsandboxed=bench.accept_unsandboxed,
    )
    entry = next(each for each in board.entries if each.solution == solution.name)
    timings = tuple(timing for trace in judged if (timing := _timing(trace)))
    gain = _gain(timings, {workload.uuid: workload.weight or 1.0 for workload in bench.workloads})
    sure = entry.speedup.lo if blank.fidelity == "full" else gain  # one session's intervals are too wide to decide by
    faster = entry.off_board is None and sure > 1
    return blank.model_copy(
        update={
            "gate": Gate.PASSED if faster else Gate.SLOWER,
            "cause": "" if faster else "correct, and not surely faster than the baseline",
            "timings": timings,
            "gain": gain,
            "speedup": entry.speedup.point,
            "lo": entry.speedup.lo,
            "hi": entry.speedup.hi,
            "log": shortened(judged[0].evaluation.log) if judged and judged[0].evaluation else "",
        }
    )


def shortened(log: str) -> str:
    """The last lines of what a program said: data, capped, without characters that steer a terminal."""
    lines = [line for line in log.replace("\r", "\n").splitlines() if line.strip()][-MAX_LOG_LINES:]
    text = "\n".join("".join(char if char.isprintable() or char == "\t" else "?" for char in line) for line in lines)
    return text[-MAX_LOG_CHARS:]


def _timing(trace: Trace) -> Timing | None:
    evaluation = trace.evaluation
    times = evaluation.statistics if evaluation else None
    if times is None or times.ratio is None or times.median_ms is None or times.baseline_median_ms is None:
        return None
    lo, hi = times.ratio_ci95 or (times.ratio, times.ratio)
    evidence = evaluation.evidence if evaluation else None
    return Timing(
        workload=trace.workload.uuid,
        axes=dict(trace.workload.axes),
        ms=times.median_ms,
        baseline_ms=times.baseline_median_ms,
        ratio=times.ratio,
        lo=lo,
        hi=hi,
        roofline_ms=evidence.roofline_ms if evidence else None,
    )


def _gain(timings: Sequence[Timing], weights: Mapping[str, float]) -> float:
    spent = [(weights[timing.workload], timing) for timing in timings]
    after = fsum(weight * timing.baseline_ms / timing.ratio for weight, timing in spent)
    return fsum(weight * timing.baseline_ms for weight, timing in spent) / after if after else 1.0


def _axes(workload: Workload) -> str:
    return " ".join(f"{name}={size}" for name, size in workload.axes.items())
