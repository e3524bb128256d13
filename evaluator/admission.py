"""Which stored traces count as evidence, and why the others don't.

A trace counts if this judge made it, in a sandbox, on the device model asked for, and for the current text of the
definition, the workload, the solution and the baseline. Whatever does not count is counted by its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from math import inf
from typing import Self

from kernelmill.trace_schema import Definition, Evaluation, Solution, Subject, Trace, Verdict, Workload

BASELINE_AUTHOR = "baseline"


class Ignored(StrEnum):
    """Why a stored trace does not count."""

    NO_STATISTICS = "no statistics: not judged by KernelMill, so without a baseline ratio"
    UNSANDBOXED = "judged without a sandbox"
    SOLUTION = "solution changed or gone since"
    DEFINITION = "definition changed since"
    WORKLOAD = "workload changed or gone since"
    BASELINE = "baseline changed since"
    OTHER_DEVICE = "other device model"
    SUPERSEDED = "superseded by another judgement"


@dataclass(frozen=True, slots=True)
class Judged:
    """A trace that the judge wrote. `order` is total (judge, time, content), so that file order means nothing."""

    solution: str
    workload: str
    device_model: str
    evaluation: Evaluation
    subject: Subject
    order: tuple[int, float, str]

    @property
    def verdict(self) -> Verdict:
        return self.evaluation.effective_verdict

    @property
    def judge(self) -> int:
        """The first number of the judge's version: it changes when a verdict or a time would."""
        return self.order[0]

    @property
    def moment(self) -> float:
        return self.order[1]

    @property
    def sandboxed(self) -> bool:
        return self.evaluation.environment.sandbox not in (None, "none")


def read(trace: Trace) -> Judged | None:
    """The judge's part of a trace; None where it has none (a workload's line, a trace of another tool)."""
    evaluation = trace.evaluation
    if trace.solution is None or evaluation is None or evaluation.subject is None:
        return None
    version = re.search(r"\d+", evaluation.subject.judge_version or "")
    judge = int(version.group()) if version else 0
    order = judge, moment(evaluation.timestamp), evaluation.model_dump_json(exclude={"log"})
    return Judged(trace.solution, trace.workload.uuid, device_model_of(trace), evaluation, evaluation.subject, order)


@dataclass(frozen=True, slots=True)
class Listing:
    """All that a board needs to know of a solution on it: its sources can stay where they are."""

    hash: str
    author: str
    language: str

    @property
    def is_baseline(self) -> bool:
        return self.author == BASELINE_AUTHOR

    @classmethod
    def of(cls, solution: Solution) -> Self:
        return cls(solution.hash(), solution.author, str(solution.spec.language))


@dataclass(frozen=True, slots=True)
class Admission:
    """The rules for one definition on one device model: which texts are current, by hash.

    `workload_hashes` is by uuid, `solution_hashes` by name.
    """

    device_model: str
    definition_hash: str
    workload_hashes: Mapping[str, str]
    solution_hashes: Mapping[str, str | None]
    baseline_hashes: frozenset[str | None]
    accept_unsandboxed: bool = False

    @classmethod
    def of(
        cls,
        definition: Definition,
        workloads: Iterable[Workload],
        *,
        device_model: str,
        listings: Mapping[str, Listing] | None,
        judged: Sequence[Judged] = (),
        accept_unsandboxed: bool = False,
    ) -> Self:
        """`listings` (by name) says which sources are current, and which is the baseline: the one by author "baseline".

        Where it is None, the source that was last `judged` under a name is current; where it has no baseline, the
        one last judged against is.
        """
        listed = [] if listings is None else listings.values()
        admission = cls(
            device_model=device_model,
            definition_hash=definition.hash(),
            workload_hashes={workload.uuid: workload.hash() for workload in workloads},
            solution_hashes=_last_judged(judged)
            if listings is None
            else {name: listing.hash for name, listing in listings.items()},
            baseline_hashes=frozenset(listing.hash for listing in listed if listing.is_baseline),
            accept_unsandboxed=accept_unsandboxed,
        )
        if admission.baseline_hashes:
            return admission
        return replace(admission, baseline_hashes=admission._last_baseline(judged))

    def refusal(self, judged: Judged) -> Ignored | None:
        """Why it does not count for this score. The device comes first: elsewhere the others will be told of it."""
        if judged.device_model != self.device_model:
            return Ignored.OTHER_DEVICE
        if not self.trusts(judged):
            return Ignored.UNSANDBOXED
        if judged.subject.solution_hash is None:
            return Ignored.NO_STATISTICS
        return self._not_current(judged)

    def refusal_unread(self, trace: Trace) -> Ignored:
        """Why a trace that the judge did not write does not count."""
        return Ignored.NO_STATISTICS if device_model_of(trace) == self.device_model else Ignored.OTHER_DEVICE

    def trusts(self, judged: Judged) -> bool:
        """Whether the judge can be believed at all: without a sandbox any solution could have forged it."""
        return judged.sandboxed or self.accept_unsandboxed

    def is_current(self, judged: Judged) -> bool:
        """Whether the source judged is the one that its name stands for today."""
        source = judged.subject.solution_hash
        return source is not None and self.solution_hashes.get(judged.solution) == source

    def _not_current(self, judged: Judged) -> Ignored | None:
        subject = judged.subject
        if not self.is_current(judged):
            return Ignored.SOLUTION
        if subject.definition_hash != self.definition_hash:
            return Ignored.DEFINITION
        if self.workload_hashes.get(judged.workload) != subject.workload_hash or subject.workload_hash is None:
            return Ignored.WORKLOAD
        if subject.baseline_hash not in self.baseline_hashes:
            return Ignored.BASELINE
        return None

    def _last_baseline(self, judgements: Sequence[Judged]) -> frozenset[str | None]:
        """Ratios to different baselines can't be compared: the one in use is the one of the latest judgement here."""
        here = [
            judged
            for judged in judgements
            if judged.device_model == self.device_model
            and judged.subject.definition_hash == self.definition_hash
            and self.trusts(judged)
            and self.is_current(judged)
        ]
        return frozenset({max(here, key=in_time).subject.baseline_hash} if here else ())


def listed(solutions: Mapping[str, Solution] | None) -> dict[str, Listing] | None:
    """Whole solutions as listings; None stays None."""
    return None if solutions is None else {name: Listing.of(solution) for name, solution in solutions.items()}


def device_model_of(trace: Trace) -> str:
    """The model that scores are kept apart by: the judge's name of the device, else the public `hardware`."""
    if trace.evaluation is None:
        return ""
    environment = trace.evaluation.environment
    return (environment.device and environment.device.name) or environment.hardware


def device_models(traces: Iterable[Trace]) -> list[str]:
    """Every device model that a trace was measured on, sorted."""
    return sorted({device_model_of(trace) for trace in traces if trace.evaluation is not None})


def moment(timestamp: str) -> float:
    """Seconds since the epoch; a time without a zone is UTC, an unreadable one is later than all others."""
    try:
        parsed = datetime.fromisoformat(timestamp)
    except ValueError:
        return inf
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def in_time(judged: Judged) -> tuple[float, tuple[object, ...]]:
    """Sorts by time first: a newer judge may have looked at an older source last."""
    return judged.moment, judged.order


def _last_judged(judgements: Sequence[Judged]) -> dict[str, str | None]:
    return {judged.solution: judged.subject.solution_hash for judged in sorted(judgements, key=in_time)}
