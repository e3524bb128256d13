"""A sitting: one definition, its baseline and some solutions, judged on workload after workload.

Workers of up to GROUP solutions live side by side, all frozen but the one that is called; each session has its own
worker for every solution and for the baseline. A solution's workers never serve another solution.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelmill.evaluator.builders import Artifact, BuildError
from kernelmill.evaluator.case import Case, make_case
from kernelmill.evaluator.compare import comparator_for
from kernelmill.evaluator.devices import Device
from kernelmill.evaluator.judge import Match, Outcome
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.evaluator.reference import Reference
from kernelmill.evaluator.sandbox import Sandbox
from kernelmill.evaluator.seat import Rejected, Seat
from kernelmill.evaluator.table import Table
from kernelmill.evaluator.trace_maker import Measured, Sitter, make_trace, with_floor
from kernelmill.trace_schema import Definition, Solution, Trace, Verdict, Workload
from kernelmill.trace_schema.errors import DatasetError

if TYPE_CHECKING:
    import torch

    from kernelmill.dataset import Dataset

GROUP = 4
NARROW_TYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
INTERPRETER_NOTICE = (
    "the Triton interpreter computes bf16 and fp8 on raw bits, so its wrong numbers are nobody's verdict"
)
BUILD_VERDICTS = {
    "invalid": Verdict.INVALID_SUBMISSION,
    "compile": Verdict.COMPILE_ERROR,
    "timeout": Verdict.TIMEOUT,
    "resource": Verdict.RESOURCE_EXCEEDED,
}


@contextmanager
def single_threaded() -> Iterator[None]:
    """The judge computes on one thread: a pool's idle threads spin for a while, beside a running clock."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True, slots=True)
class Built:
    """A solution and what became of its build."""

    solution: Solution
    result: Artifact | BuildError


class Sitting:
    """Judges solutions of one definition. `artifacts` were built before, so that no compiler disturbs a clock."""

    def __init__(
        self,
        definition: Definition,
        reference: Artifact,
        baseline: Built,
        sandbox: Sandbox,
        options: JudgeOptions,
        dataset: Dataset | None,
        device: Device,
    ) -> None:
        self._definition = definition
        self._comparator = comparator_for(definition)
        self._reference_artifact = reference
        self._baseline = baseline
        self._sandbox = sandbox
        self._options = options
        self._dataset = dataset
        self._static: dict[tuple[str, tuple[int, ...]], torch.Tensor] = {}
        self.notices: list[str] = []
        """What was not judged, and why; no trace is made for it."""
        self._sitter = Sitter(definition, baseline.solution, secrets.token_hex(8), sandbox.kind, device)

    def traces(self, todo: Sequence[tuple[Built, Workload]]) -> Iterator[Trace]:
        """Judge these pairs; each trace is given as soon as it is known. Raises DatasetError, InternalError."""
        for built, workload in todo:
            if isinstance(built.result, BuildError):
                yield self._trace(built, workload, not_built(built.result), None)
        entries = list(
            {built.solution.hash(): built for built, _ in todo if isinstance(built.result, Artifact)}.values()
        )
        for start in range(0, len(entries), GROUP):
            chosen = {built.solution.hash() for built in entries[start : start + GROUP]}
            yield from self._group([(b, w) for b, w in todo if b.solution.hash() in chosen])

    def _group(self, todo: Sequence[tuple[Built, Workload]]) -> Iterator[Trace]:
        beside = self._seats(self._baseline)
        own = self._baseline.solution.hash()
        seats = {built.solution.hash(): self._seats(built) for built, _ in todo if built.solution.hash() != own}
        everyone = [*beside, *(seat for row in seats.values() for seat in row)]
        with ExitStack() as stack:
            stack.enter_context(single_threaded())
            for seat in everyone:
                stack.callback(seat.close)
                seat.start()
            reference = Reference(self._definition, self._reference_artifact, self._sandbox, self._options)
            stack.callback(reference.close)
            for seat in everyone:
                seat.settle()
            for workload in {workload.uuid: workload for _, workload in todo}.values():
                entries = [built for built, asked in todo if asked.uuid == workload.uuid]
                yield from self._workload(workload, entries, reference, beside, seats)

    def _workload(
        self,
        workload: Workload,
        entries: Sequence[Built],
        reference: Reference,
        beside: Sequence[Seat],
        seats: dict[str, list[Seat]],
    ) -> Iterator[Trace]:
        case = make_case(self._definition, workload, self._dataset)
        table = Table(case, reference, self._comparator, self._static, self._options.verified)
        measured = Measured(table.reference_s, table.null_s, table.work)
        try:
            for session, seat in enumerate(beside):
                self._seat_baseline(seat, table, session)
            for built in entries:
                row = seats.get(built.solution.hash(), beside)
                match = Match(table, row, beside, self._options)
                outcome = match.play(timed=_timed(built))
                if self._interpreter_may_lie(built, case, outcome):
                    self.notices.append(f"{built.solution.name} on {workload.uuid}: {INTERPRETER_NOTICE}")
                    continue
                yield self._trace(built, workload, with_floor(outcome, measured, self._sitter.device), measured)
        finally:
            table.close()

    def _interpreter_may_lie(self, built: Built, case: Case, outcome: Outcome) -> bool:
        narrow = any(tensor.dtype in NARROW_TYPES for tensor in (*case.tensors, *case.outputs))
        return not _timed(built) and narrow and outcome.verdict is Verdict.INCORRECT_NUMERICAL

    def _seat_baseline(self, seat: Seat, table: Table, session: int) -> None:
        try:
            seat.prepare(table.case, table.inputs, table.memory)
        except Rejected as error:
            raise DatasetError(
                f"the baseline {self._baseline.solution.name} of {self._definition.name} does not load "
                f"(session {session}): {error.reason}"
            ) from error

    def _seats(self, built: Built) -> list[Seat]:
        assert isinstance(built.result, Artifact)
        return [
            Seat(built.result, self._sandbox, self._options)
            for _ in range(self._options.sessions if built.result.timed else 1)
        ]

    def _trace(self, built: Built, workload: Workload, outcome: Outcome, measured: Measured | None) -> Trace:
        return make_trace(self._sitter, workload, built.solution, outcome, measured)


def _timed(built: Built) -> bool:
    return isinstance(built.result, Artifact) and built.result.timed


def not_built(error: BuildError) -> Outcome:
    return Outcome(verdict=BUILD_VERDICTS[error.kind], reason=str(error), log=error.log)
