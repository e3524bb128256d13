"""Evaluate: from solutions and workloads to traces, on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from kernelmill.dataset.paths import default_cache
from kernelmill.evaluator import builders
from kernelmill.evaluator.builders import Artifact, BuildError, UnsupportedHere
from kernelmill.evaluator.devices import Device, open_device
from kernelmill.evaluator.devices.cpu import Cpu
from kernelmill.evaluator.machine import core_count
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.evaluator.reference import reference_solution
from kernelmill.evaluator.sandbox import open_sandbox
from kernelmill.evaluator.sitting import Built, Sitting
from kernelmill.trace_schema import Definition, Solution, Trace, Workload
from kernelmill.trace_schema.errors import DatasetError

if TYPE_CHECKING:
    from kernelmill.dataset import Dataset
    from kernelmill.evaluator.burst.sitting import BurstSitting

BASELINE_AUTHOR = "baseline"


def evaluate(
    definition: Definition,
    solution: Solution | Sequence[Solution],
    workloads: Iterable[Workload],
    *,
    device: str = "cpu",
    dataset: Dataset | None = None,
    baseline: Solution | None = None,
    options: JudgeOptions | None = None,
) -> Iterator[Trace]:
    """Judge solutions of one definition; a trace is given as soon as it is known.

    The baseline is `baseline`, else the dataset's one solution of author "baseline" for this kind of device, else the
    reference itself.

    Raises DatasetError (definition, workload, reference, baseline), InternalError (this host), SandboxUnavailable.
    """
    opened = open_device(device)
    try:
        forge = Forge(options or JudgeOptions(), opened)
        solutions = [solution] if isinstance(solution, Solution) else list(solution)
        built = forge.build_all(solutions)
        todo = [(entry, workload) for workload in workloads for entry in built]
        beside = baseline or find_baseline(definition, dataset, opened)
        yield from forge.sitting(definition, beside, dataset).traces(todo)
    finally:
        opened.close()


def find_baseline(definition: Definition, dataset: Dataset | None, device: Device) -> Solution | None:
    """The one solution by author "baseline" for this kind of device, or None. Several are the dataset's fault."""
    if dataset is None:
        return None
    by_baseline = (solution for solution in dataset.solutions(definition) if solution.author == BASELINE_AUTHOR)
    found = [solution for solution in by_baseline if is_for(solution, device.kind)]
    if len(found) > 1:
        names = ", ".join(solution.name for solution in found)
        raise DatasetError(
            f"{definition.name} has {len(found)} baselines for {device.kind} ({names}); "
            "keep one and give the others another author"
        )
    return found[0] if found else None


def is_for(solution: Solution, kind: str) -> bool:
    """Whether its target hardware, a model's name or a kind of device, is of this kind."""
    targets = {target.lower() for target in solution.spec.target_hardware}
    return bool(targets & {"cpu", "local", "any"}) if kind == "cpu" else bool(targets - {"cpu"})


class Forge:
    """Builds everything a run needs, before any clock runs. Raises SandboxUnavailable where foreign code is refused."""

    def __init__(self, options: JudgeOptions, device: Device | None = None) -> None:
        self.device = device or Cpu()
        self._sandbox = open_sandbox(options.sandbox)
        self._worker_sandbox = open_sandbox(options.sandbox, self.device.nodes)
        self._options = options
        self._cache = options.cache or default_cache()

    def build_all(self, solutions: Sequence[Solution]) -> list[Built]:
        """Compile side by side. Raises UnsupportedHere for a language that this host lacks, InternalError."""
        with ThreadPoolExecutor(max_workers=core_count()) as pool:
            return list(pool.map(self.build, solutions))

    def build(self, solution: Solution) -> Built:
        try:
            return Built(solution, self._build(solution))
        except BuildError as error:
            return Built(solution, error)

    def _build(self, solution: Solution) -> Artifact:
        return builders.build(
            solution,
            cache=self._cache,
            sandbox=self._sandbox,
            timeout_s=self._options.build_timeout_s,
            limits=self._options.limits,
            target=self.device.target,
        )

    def sitting(
        self, definition: Definition, baseline: Solution | None, dataset: Dataset | None
    ) -> Sitting | BurstSitting:
        """Raises DatasetError if the reference or the baseline does not build."""
        reference = reference_solution(definition)
        built = [self.build(reference), self.build(baseline or reference)]
        for entry in built:
            if not isinstance(entry.result, Artifact):
                raise DatasetError(f"{entry.solution.name} of {definition.name} does not build: {entry.result}")
        artifact = built[0].result
        assert isinstance(artifact, Artifact)
        sandbox, options = self._worker_sandbox, self._options
        if self.device.kind == "cpu":
            return Sitting(definition, artifact, built[1], sandbox, options, dataset, self.device)
        from kernelmill.evaluator.burst.sitting import BurstSitting

        return BurstSitting(definition, artifact, built[1], sandbox, options, dataset, self.device)


__all__ = ["Forge", "UnsupportedHere", "evaluate", "find_baseline", "is_for"]
