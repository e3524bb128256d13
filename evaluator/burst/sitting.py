"""A sitting on a device that is judged by bursts: one definition, its baseline and some solutions.

Workers of up to GROUP solutions live side by side, each session's apart, all frozen but the one whose turn it is.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kernelmill.evaluator.builders import Artifact, BuildError
from kernelmill.evaluator.burst.board import Board, Plan, most, plan
from kernelmill.evaluator.burst.contents import StaticTensors
from kernelmill.evaluator.burst.layout import Region
from kernelmill.evaluator.burst.match import BurstMatch, Contestant
from kernelmill.evaluator.burst.seat import BurstSeat
from kernelmill.evaluator.case import make_case
from kernelmill.evaluator.compare import comparator_for
from kernelmill.evaluator.devices import Device
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.evaluator.reference import Reference
from kernelmill.evaluator.sandbox import Sandbox
from kernelmill.evaluator.sitting import Built, not_built
from kernelmill.evaluator.trace_maker import EAGER_CLOCK, GRAPH_CLOCK, Measured, Sitter, make_trace, with_floor
from kernelmill.trace_schema import Definition, Trace, Workload

if TYPE_CHECKING:
    from kernelmill.dataset import Dataset

GROUP = 5
Row = list[BurstSeat]


class BurstSitting:
    """Judges solutions of one definition on one device. `artifacts` were built before."""

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
        self._device = device
        self._static: StaticTensors = {}
        self.notices: list[str] = []
        """What was not judged, and why; no trace is made for it."""
        self.start_s = 0.0
        """Seconds spent on starting workers, and on what they compile at the first workload."""
        self.lending_s = 0.0
        """Seconds spent on lending memory for the other workloads, and on capturing bursts."""
        self._sitter = Sitter(definition, baseline.solution, secrets.token_hex(8), sandbox.kind, device)

    def traces(self, todo: Sequence[tuple[Built, Workload]]) -> Iterator[Trace]:
        """Judge these pairs; each trace is given as soon as it is known. Raises DatasetError, InternalError."""
        for built, workload in todo:
            if isinstance(built.result, BuildError):
                yield make_trace(self._sitter, workload, built.solution, not_built(built.result), None)
        entries = list({b.solution.hash(): b for b, _ in todo if isinstance(b.result, Artifact)}.values())
        for start in range(0, len(entries), GROUP):
            chosen = {built.solution.hash() for built in entries[start : start + GROUP]}
            yield from self._group([(b, w) for b, w in todo if b.solution.hash() in chosen])

    def _group(self, todo: Sequence[tuple[Built, Workload]]) -> Iterator[Trace]:
        self._device.check()
        self._device.calibrate()
        workloads = list({workload.uuid: workload for _, workload in todo}.values())
        plans = {w.uuid: plan(make_case(self._definition, w, self._dataset), self._device) for w in workloads}
        input_bytes, output_bytes = most(list(plans.values()))
        own = self._baseline.solution.hash()
        rows = {own: self._row(self._baseline)}
        rows |= {b.solution.hash(): self._row(b) for b, _ in todo if b.solution.hash() != own}
        start = time.monotonic()
        with ExitStack() as stack:
            region = Region(self._device, input_bytes, writable=False)
            stack.callback(region.close)
            for seat in (seat for row in rows.values() for seat in row):
                stack.callback(seat.close)
                seat.start()
                seat.reserve(output_bytes)
            reference = Reference(
                self._definition, self._reference_artifact, self._sandbox, self._options, self._device
            )
            stack.callback(reference.close)
            for seat in (seat for row in rows.values() for seat in row):
                seat.settle()
            self.start_s += time.monotonic() - start
            for workload in workloads:
                entries = [built for built, asked in todo if asked.uuid == workload.uuid]
                first = workload is workloads[0]
                yield from self._workload(workload, plans[workload.uuid], entries, region, reference, rows, first)

    def _workload(
        self,
        workload: Workload,
        planned: Plan,
        entries: Sequence[Built],
        region: Region,
        reference: Reference,
        rows: dict[str, Row],
        first: bool,
    ) -> Iterator[Trace]:
        options, device = self._options, self._device
        board = Board(planned, device, region, reference, self._comparator, self._static, options.verified)
        own = self._baseline.solution.hash()
        hashes = [built.solution.hash() for built in entries]
        contestants = {key: Contestant(rows[key]) for key in dict.fromkeys([own, *hashes])}
        match = BurstMatch(board, contestants[own], list(contestants.values()), options)
        try:
            match.play()
        finally:
            board.close()
            if first:
                self.start_s += match.seating_s
            else:
                self.lending_s += match.seating_s
        device.check()
        for built in entries:
            one = contestants[built.solution.hash()]
            reference_s = max(0.0, board.reference_s - board.null_s)
            clock = GRAPH_CLOCK if one.captured else EAGER_CLOCK
            measured = Measured(reference_s, board.null_s, board.work, clock)
            outcome = with_floor(one.outcome, measured, device)
            yield make_trace(self._sitter, workload, built.solution, outcome, measured)

    def _row(self, built: Built) -> Row:
        assert isinstance(built.result, Artifact)
        return [
            BurstSeat(built.result, self._sandbox, self._options, self._device) for _ in range(self._options.sessions)
        ]
