"""What a run has to judge: which solutions on which workloads, less what is already judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelmill.evaluator.devices import Named
from kernelmill.evaluator.options import JUDGE_VERSION
from kernelmill.evaluator.run import BASELINE_AUTHOR, is_for
from kernelmill.trace_schema import Definition, Language, Solution, Workload
from kernelmill.trace_schema.errors import DatasetError

if TYPE_CHECKING:
    from kernelmill.dataset import Dataset


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters of a run; an empty one admits everything."""

    definitions: Sequence[str] = ()
    solutions: Sequence[str] = ()
    op_types: Sequence[str] = ()
    authors: Sequence[str] = ()
    workloads: Sequence[str] | None = None
    """Workload uuids, or None for all."""
    resume: bool = False
    """Leave out what has a trace with current hashes by this judge."""


@dataclass(frozen=True, slots=True)
class Job:
    """One definition's share of a run."""

    definition: Definition
    solutions: Sequence[Solution]
    workloads: Sequence[Workload]
    done: frozenset[tuple[str, str]]
    """(solution hash, workload hash) pairs that need no judging."""

    @property
    def count(self) -> int:
        return len(self.solutions) * len(self.workloads) - len(self.done)


def jobs(dataset: Dataset, selection: Selection, device: Named | None = None) -> Iterator[Job]:
    """In the dataset's order, and only what is meant for the device, or asked for by name.

    Raises DatasetError for names that are not there, with the nearest ones.
    """
    for name in selection.definitions:
        dataset.definition(name)
    for name in selection.solutions:
        dataset.solution(name)
    for definition in dataset.definitions.values():
        if _wanted(definition.name, selection.definitions) and _wanted(definition.op_type, selection.op_types):
            job = _job(dataset, definition, selection, device)
            if job.count:
                yield job


def _job(dataset: Dataset, definition: Definition, selection: Selection, device: Named | None) -> Job:
    solutions = [
        solution
        for solution in dataset.solutions(definition)
        if _wanted(solution.name, selection.solutions) and _wanted(solution.author, selection.authors)
        if solution.name in selection.solutions or _belongs(solution, device.kind if device else "cpu")
    ]
    solutions.sort(key=lambda solution: solution.author != BASELINE_AUTHOR)
    asked = selection.workloads
    workloads = [w for w in dataset.workloads(definition) if asked is None or w.uuid in asked]
    done = _done(dataset, definition, solutions, workloads, device) if selection.resume else frozenset()
    return Job(definition, solutions, workloads, done)


def _belongs(solution: Solution, kind: str) -> bool:
    """Whether it is meant for this device. A CPU also gives Triton a verdict, and says of CUDA that it can't."""
    return is_for(solution, kind) or (kind == "cpu" and solution.spec.language is not Language.PYTHON)


def _done(
    dataset: Dataset,
    definition: Definition,
    solutions: Sequence[Solution],
    workloads: Sequence[Workload],
    device: Named | None,
) -> frozenset[tuple[str, str]]:
    pairs = {(solution.hash(), workload.hash()) for solution in solutions for workload in workloads}
    current = definition.hash()
    found = set()
    for trace in dataset.traces(definition=definition):
        subject = trace.evaluation.subject if trace.evaluation else None
        if trace.evaluation and device is not None and trace.evaluation.environment.hardware != device.model:
            continue
        if subject and subject.definition_hash == current and subject.judge_version == JUDGE_VERSION:
            found.add((subject.solution_hash or "", subject.workload_hash or ""))
    return frozenset(pairs & found)


def _wanted(name: str, filters: Sequence[str]) -> bool:
    return not filters or name in filters


def check_writable(dataset: Dataset) -> None:
    """Raises DatasetError now rather than after an hour of judging."""
    import os

    for folder in (dataset.root / "traces", dataset.root):
        if folder.exists():
            if not os.access(folder, os.W_OK):
                raise DatasetError(
                    f"traces cannot be written below {folder}; use --no-save, or a copy of the dataset that is yours"
                )
            return
