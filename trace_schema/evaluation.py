"""Evaluation: the verdict on one solution and workload, with its errors, times, environment and evidence."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from kernelmill.trace_schema.base import Count, Duration, Json, Magnitude, Measure, Model, Text


class Status(StrEnum):
    """The public schema's outcomes."""

    PASSED = "PASSED"
    INCORRECT_SHAPE = "INCORRECT_SHAPE"
    INCORRECT_NUMERICAL = "INCORRECT_NUMERICAL"
    INCORRECT_DTYPE = "INCORRECT_DTYPE"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    COMPILE_ERROR = "COMPILE_ERROR"
    TIMEOUT = "TIMEOUT"


class Verdict(StrEnum):
    """The judge's outcomes: the public ones, and what they can't tell apart."""

    PASSED = "PASSED"
    INCORRECT_SHAPE = "INCORRECT_SHAPE"
    INCORRECT_NUMERICAL = "INCORRECT_NUMERICAL"
    INCORRECT_DTYPE = "INCORRECT_DTYPE"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    COMPILE_ERROR = "COMPILE_ERROR"
    TIMEOUT = "TIMEOUT"
    CHEAT_DETECTED = "CHEAT_DETECTED"
    SUSPECT = "SUSPECT"
    RULE_VIOLATION = "RULE_VIOLATION"
    RESOURCE_EXCEEDED = "RESOURCE_EXCEEDED"
    INVALID_SUBMISSION = "INVALID_SUBMISSION"
    HARNESS_ERROR = "HARNESS_ERROR"

    @property
    def status(self) -> Status:
        """The public status that stands for this verdict; ValueError for HARNESS_ERROR, which no trace may carry."""
        match self:
            case Verdict.HARNESS_ERROR:
                raise ValueError("HARNESS_ERROR is an event and not a result: it is never written to a trace")
            case Verdict.CHEAT_DETECTED | Verdict.SUSPECT | Verdict.RULE_VIOLATION | Verdict.RESOURCE_EXCEEDED:
                return Status.RUNTIME_ERROR
            case Verdict.INVALID_SUBMISSION:
                return Status.COMPILE_ERROR
            case _:
                return Status(self.value)


class Correctness(Model):
    """How far the outputs were from the reference's."""

    max_relative_error: Magnitude = 0.0
    """Largest relative error of an element."""
    max_absolute_error: Magnitude = 0.0
    """Largest absolute error of an element."""
    extra: dict[str, Json] | None = None
    """Further measures, by comparator."""


class Performance(Model):
    """Times against the reference; {} where nothing was timed."""

    latency_ms: Duration = 0.0
    """Time of one call of the solution, in milliseconds."""
    reference_latency_ms: Duration = 0.0
    """Time of one call of the reference, in milliseconds."""
    speedup_factor: Duration = 0.0
    """reference_latency_ms / latency_ms."""


class Device(Model):
    """The device that ran the call."""

    name: Text | None = None
    """Model name, as its driver reports it."""
    arch: Text | None = None
    """Architecture, such as sm_90 or x86_64."""
    count: Count | None = None
    """How many such devices the call used."""


class Environment(Model):
    """Hardware and software of the measurement."""

    hardware: Text
    """The device's model name, such as NVIDIA B200."""
    libs: dict[str, str] = Field(default_factory=dict)
    """Version by library name."""
    device: Device | None = None
    """The device in more detail."""
    clocks: dict[str, Json] | None = None
    """Device clocks and power state while timing."""
    sandbox: Text | None = None
    """What kept the solution apart from the judge, such as bwrap or none."""


class Subject(Model):
    """Exactly what was judged, by content; a reader ignores a trace whose hashes are not current."""

    solution_hash: Text | None = None
    """Hash of the solution."""
    definition_hash: Text | None = None
    """Hash of the definition."""
    workload_hash: Text | None = None
    """Hash of the workload."""
    baseline_hash: Text | None = None
    """Hash of the baseline solution."""
    judge_version: Text | None = None
    """Version of the judge that decided."""
    session: Text | None = None
    """The sitting: traces of one session shared workers' start-up, inputs and baseline runs."""


def _ordered(interval: tuple[float, float]) -> tuple[float, float]:
    if interval[0] > interval[1]:
        raise ValueError(f"the lower bound {interval[0]!r} is above the upper bound {interval[1]!r}")
    return interval


class Statistics(Model):
    """Times of the solution and of the baseline beside it, in milliseconds a call."""

    n: Count | None = None
    """Timed samples."""
    sessions: Count | None = None
    """Measurement sessions (fresh workers, fresh baseline) among them."""
    median_ms: Measure | None = None
    """Median time of a call."""
    p10_ms: Measure | None = None
    """10th percentile."""
    p90_ms: Measure | None = None
    """90th percentile."""
    baseline: Text | None = None
    """Name of the baseline solution."""
    baseline_median_ms: Measure | None = None
    """Median time of a call of the baseline."""
    ratio: Measure | None = None
    """Baseline time / solution time: more than 1 is faster than the baseline."""
    ratio_ci95: Annotated[tuple[Duration, Duration], AfterValidator(_ordered)] | None = None
    """95 % confidence interval of the ratio."""


class Evidence(Model):
    """What the times rest on."""

    clock: Text | None = None
    """Which clock decided, such as `judge (graph replay)` or `none (triton interpreter)`."""
    roofline_ms: Measure | None = None
    """Least time that bandwidth and peak throughput allow."""
    floor_ms: Measure | None = None
    """Below this time a result is SUSPECT."""
    verified_calls: Count | None = None
    """Timed calls whose outputs were checked."""
    worker_clock_ms: Measure | None = None
    """The same call by the worker's own clock: a diagnosis, never scored."""


class Evaluation(Model):
    """The outcome of one solution on one workload."""

    status: Status
    """Outcome in the public schema's terms."""
    environment: Environment
    """Where it was measured."""
    timestamp: Text
    """When, in ISO 8601."""
    log: str = ""
    """What the solution wrote to stdout and stderr, cut to a limit."""
    correctness: Correctness | None = None
    """Errors: with PASSED and INCORRECT_NUMERICAL only."""
    performance: Performance | None = None
    """Times against the reference: with PASSED only."""
    subject: Subject | None = None
    """Exactly what was judged."""
    verdict: Verdict | None = None
    """The judge's own outcome; the status when left out."""
    reason: str | None = None
    """Why, in a sentence for the author."""
    statistics: Statistics | None = None
    """Times against the baseline: what score and apply read."""
    evidence: Evidence | None = None
    """What the times rest on."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        wants_correctness = self.status in (Status.PASSED, Status.INCORRECT_NUMERICAL)
        _check_presence("correctness", self.correctness is not None, wants_correctness, self.status)
        _check_presence("performance", self.performance is not None, self.status is Status.PASSED, self.status)
        if self.verdict is not None and self.verdict.status is not self.status:
            raise ValueError(f"verdict {self.verdict} needs status {self.verdict.status}, not {self.status}")
        return self

    @property
    def effective_verdict(self) -> Verdict:
        """The verdict; the status where a trace from elsewhere has none."""
        return self.verdict or Verdict(self.status.value)


def _check_presence(field: str, present: bool, wanted: bool, status: Status) -> None:
    if present != wanted:
        raise ValueError(f"status {status} {'needs' if wanted else 'forbids'} {field}")
