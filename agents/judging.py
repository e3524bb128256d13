"""The real judge, as an agent meets it: the evaluator on this machine, quick on a few workloads or full on all."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from kernelmill.agents.outcome import Bench, Fidelity, Outcome, outcome_of, shortened
from kernelmill.evaluator.builders import BuildError
from kernelmill.evaluator.case import make_case
from kernelmill.evaluator.findings import HIDDEN
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.trace_schema import Definition, Solution, Trace, Workload
from kernelmill.trace_schema.errors import DatasetError

if TYPE_CHECKING:
    from kernelmill.dataset import Dataset
    from kernelmill.evaluator.sitting import Built

QUICK_WORKLOADS = 3
DEADLINE_S = 120.0
"""Of one call: a baseline that compiles at its first one takes long on a busy machine."""
TABLE = 4
"""Solutions that are judged side by side; the deadline is looked at between such groups and between workloads."""


class LocalJudge:
    """Owns the device while it is open. `save`: full judgements, and what they judged, go into the dataset."""

    def __init__(
        self,
        dataset: Dataset,
        definition: Definition,
        *,
        device: str = "cpu",
        sandbox: Literal["bwrap", "none"] = "bwrap",
        options: JudgeOptions | None = None,
        save: bool = False,
    ) -> None:
        from kernelmill.evaluator.devices import open_device
        from kernelmill.evaluator.run import Forge, find_baseline

        self._dataset, self._definition, self._save = dataset, definition, save
        self._full = replace(options or JudgeOptions(timeout_s=DEADLINE_S), sandbox=sandbox)
        self._quick = replace(self._full, sessions=1, warmups=1, pairs=12, seconds=0.25, burst_seconds=0.03, verified=2)
        self.device = open_device(device)
        self._forges = {"full": Forge(self._full, self.device), "quick": Forge(self._quick, self.device)}
        self.baseline = find_baseline(definition, dataset, self.device)
        self.workloads = [one for one in dataset.workloads(definition) if one.split != HIDDEN]
        if not self.workloads:
            raise DatasetError(f"{definition.name} has no public workload in {dataset.root}; add one")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.device.close()

    def chosen(self, fidelity: Fidelity) -> list[Workload]:
        """All of them; or the least, the middle and the largest."""
        if fidelity == "full" or len(self.workloads) <= QUICK_WORKLOADS:
            return self.workloads
        ordered = sorted(self.workloads, key=lambda one: sum(one.axes.values()))
        places = [round(i * (len(ordered) - 1) / (QUICK_WORKLOADS - 1)) for i in range(QUICK_WORKLOADS)]
        return [ordered[place] for place in places]

    def judge(self, solutions: Sequence[Solution], fidelity: Fidelity, deadline_s: float) -> list[Outcome]:
        started = time.monotonic()
        workloads = self.chosen(fidelity)
        if self._save and fidelity == "full":
            known = {one.hash() for one in self._dataset.solutions(self._definition)}
            for one in solutions:
                if one.hash() not in known:
                    self._dataset.add_solution(one)
        built = self._forges[fidelity].build_all(solutions)
        traces: dict[str, list[Trace]] = {one.solution.hash(): [] for one in built}
        for start in range(0, len(built), TABLE):
            for trace in self._traces(built[start : start + TABLE], workloads, fidelity):
                assert trace.evaluation is not None and trace.evaluation.subject is not None
                traces[trace.evaluation.subject.solution_hash or ""].append(trace)
                if self._save and fidelity == "full":
                    self._dataset.append(trace)
                if time.monotonic() - started > deadline_s:
                    break
            if time.monotonic() - started > deadline_s:
                break
        share_s = round((time.monotonic() - started) / len(solutions), 3)
        return [self._outcome(one, workloads, traces[one.hash()], fidelity, share_s) for one in solutions]

    def compiled(self, solution: Solution) -> str:
        """Compiler output where it does not build; "" where it does."""
        built = self._forges["quick"].build(solution).result
        return shortened(f"{built}\n{built.log}") if isinstance(built, BuildError) else ""

    def looked_into(self, solution: Solution, with_tool: Literal["profile", "sanitize"]) -> str:
        """On its largest workload; says why where this host does not show it."""
        from kernelmill.agents.looking import look

        case = make_case(self._definition, self.chosen("quick")[-1], self._dataset)
        return look(solution, case, self.device, with_tool, self._full.sandbox)

    def _traces(self, built: Sequence[Built], workloads: Sequence[Workload], fidelity: Fidelity) -> Iterator[Trace]:
        sitting = self._forges[fidelity].sitting(self._definition, self.baseline, self._dataset)
        yield from sitting.traces([(one, workload) for workload in workloads for one in built])

    def _outcome(
        self, solution: Solution, workloads: Sequence[Workload], traces: Sequence[Trace], fidelity: Fidelity, s: float
    ) -> Outcome:
        bench = Bench(self._definition, workloads, self.device.model, self._full.sandbox == "none")
        return outcome_of(solution, bench, traces, fidelity=fidelity, device_s=s)
