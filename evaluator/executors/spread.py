"""Spreads a run's jobs over an executor's devices. Every trace is saved here, in the parent, as soon as it comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kernelmill.evaluator.executors.base import Executor, Unit
from kernelmill.evaluator.plan import Job
from kernelmill.evaluator.runner import Event, exit_code
from kernelmill.trace_schema.errors import DatasetError

if TYPE_CHECKING:
    from kernelmill.dataset import Dataset


class Spread:
    """Runs jobs on an executor; `exit_code` says afterwards how it went, as a Runner's does."""

    def __init__(self, dataset: Dataset, executor: Executor, *, save: bool) -> None:
        self._dataset = dataset
        self._executor = executor
        self._save = save
        self._counts: Counter[str] = Counter()

    @property
    def exit_code(self) -> int:
        return exit_code(self._counts)

    def run(self, jobs: Sequence[Job]) -> Iterator[Event]:
        for event in self._executor.run(split(jobs, str(self._dataset.root), self._executor.share)):
            kept = self._kept(event)
            self._counts[kept.kind] += 1
            yield kept

    def _kept(self, event: Event) -> Event:
        """The event, once its trace is on the disk."""
        if self._save and event.trace is not None:
            try:
                self._dataset.append(event.trace)
            except DatasetError as error:
                return Event("dataset_error", f"{event.trace.definition}: {error}")
        return event


def split(jobs: Sequence[Job], dataset: str, share: int) -> list[Unit]:
    """One unit a definition; where there are fewer than `share`, each is cut by its workloads. The largest come first:
    a large one that starts last would be waited for alone.
    """
    parts = -(-share // max(1, len(jobs)))
    units = [unit for job in jobs for unit in _cut(job, dataset, parts)]
    return sorted(units, key=lambda unit: -len(unit.solutions) * len(unit.workloads))


def _cut(job: Job, dataset: str, parts: int) -> Iterator[Unit]:
    """Every so many-th workload, since neighbours in a file often take a similar time."""
    solutions = [solution.name for solution in job.solutions]
    for start in range(min(parts, len(job.workloads))):
        workloads = job.workloads[start::parts]
        hashes = {workload.hash() for workload in workloads}
        done = sorted(pair for pair in job.done if pair[1] in hashes)
        unit = Unit(dataset, job.definition.name, solutions, [workload.uuid for workload in workloads], done)
        if len(done) < len(solutions) * len(workloads):
            yield unit
