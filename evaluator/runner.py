"""A run from a shell: build everything, judge job after job, save each trace at once, say what happens."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelmill.evaluator.builders import UnsupportedHere
from kernelmill.evaluator.machine import core_count
from kernelmill.evaluator.plan import Job
from kernelmill.evaluator.run import Forge, find_baseline
from kernelmill.evaluator.sitting import Built
from kernelmill.trace_schema import Solution, Trace, Workload
from kernelmill.trace_schema.errors import DatasetError, InternalError

if TYPE_CHECKING:
    from kernelmill.dataset import Dataset


@dataclass(frozen=True, slots=True)
class Event:
    """Something to tell: a verdict, a notice, or whose fault something was."""

    kind: str
    """trace, building, skipped, dataset_error, harness_error"""
    text: str
    trace: Trace | None = None


class Runner:
    """Runs jobs; `exit_code` says afterwards how it went."""

    def __init__(self, dataset: Dataset, forge: Forge, *, save: bool) -> None:
        self._dataset = dataset
        self._forge = forge
        self._save = save
        self._builds: dict[str, Future[Built]] = {}
        self._counts: Counter[str] = Counter()

    @property
    def exit_code(self) -> int:
        return exit_code(self._counts)

    def run(self, jobs: Sequence[Job]) -> Iterator[Event]:
        """Everything is compiled before the first clock runs."""
        yield from self.build(jobs)
        for job in jobs:
            yield from self._guarded(job.definition.name, lambda job=job: self._job(job))  # type: ignore[misc]

    def build(self, jobs: Sequence[Job]) -> Iterator[Event]:
        """Compile what was not compiled before; `run` then finds it."""
        solutions = {solution.hash(): solution for job in jobs for solution in job.solutions}
        fresh = [solution for key, solution in solutions.items() if key not in self._builds]
        with ThreadPoolExecutor(max_workers=core_count()) as pool:
            for solution in fresh:
                self._builds[solution.hash()] = pool.submit(self._forge.build, solution)
            for number, solution in enumerate(fresh, 1):
                _wait(self._builds[solution.hash()])
                yield Event("building", f"built {number} of {len(fresh)}")

    def _guarded(self, what: str, work: Callable[[], Iterator[Event]]) -> Iterator[Event]:
        """Whose fault is it? One definition's trouble leaves the others alone."""
        try:
            yield from work()
        except DatasetError as error:
            self._counts["dataset_error"] += 1
            yield Event("dataset_error", f"{what}: {error}")
        except InternalError as error:
            self._counts["harness_error"] += 1
            yield Event("harness_error", f"{what}: {error}")

    def _job(self, job: Job) -> Iterator[Event]:
        todo: list[tuple[Built, Workload]] = []
        for solution in job.solutions:
            yield from self._guarded(solution.name, lambda s=solution: self._enlist(s, job, todo))  # type: ignore[misc]
        if todo:
            todo.sort(key=lambda pair: job.workloads.index(pair[1]))
            baseline = find_baseline(job.definition, self._dataset, self._forge.device)
            sitting = self._forge.sitting(job.definition, baseline, self._dataset)
            for trace in sitting.traces(todo):
                if self._save:
                    self._dataset.append(trace)
                yield Event("trace", describe(trace), trace)
            yield from (Event("skipped", notice) for notice in sitting.notices)

    def _enlist(self, solution: Solution, job: Job, todo: list[tuple[Built, Workload]]) -> Iterator[Event]:
        try:
            built = self._builds[solution.hash()].result()
        except UnsupportedHere as error:
            yield Event("skipped", str(error))
            return
        own = Built(solution, built.result)  # twins share a build, not a name
        todo += [(own, w) for w in job.workloads if (solution.hash(), w.hash()) not in job.done]


def exit_code(counts: Counter[str]) -> int:
    """Of a run that told so many events of each kind: 0 all evaluated, 1 a fault of ours, 2 one of the dataset."""
    return 2 if counts["dataset_error"] else 1 if counts["harness_error"] else 0


def _wait(build: Future[Built]) -> None:
    while not build.done():
        time.sleep(0.02)


def describe(trace: Trace) -> str:
    """One line for a person."""
    evaluation = trace.evaluation
    assert evaluation is not None
    verdict = evaluation.effective_verdict.value
    axes = " ".join(f"{name}={size}" for name, size in trace.workload.axes.items())
    head = f"{verdict:<20} {trace.definition}  {trace.solution}  [{axes}]"
    times = evaluation.statistics
    if times is None or times.ratio is None or times.ratio_ci95 is None:
        return f"{head}  {evaluation.reason or 'not timed'}"
    low, high = times.ratio_ci95
    return f"{head}  {times.median_ms:.4g} ms  {times.ratio:.2f}x ({low:.2f}-{high:.2f}) of {times.baseline}"
