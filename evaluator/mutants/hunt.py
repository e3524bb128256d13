"""Tries every mutant of a definition on its workloads and says which ones pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import torch

from kernelmill.evaluator.builders import Artifact
from kernelmill.evaluator.case import make_case
from kernelmill.evaluator.compare import comparator_for
from kernelmill.evaluator.compare.base import Expectation
from kernelmill.evaluator.compare.defaults import comparator_of
from kernelmill.evaluator.mutants.inputs import changed_inputs
from kernelmill.evaluator.mutants.outputs import changed_outputs
from kernelmill.evaluator.mutants.sampling import wrong_samplers
from kernelmill.evaluator.mutants.scene import Mutant, Scene, Tensors
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.evaluator.reference import Reference, reference_solution
from kernelmill.evaluator.run import Forge
from kernelmill.evaluator.sandbox import open_sandbox
from kernelmill.evaluator.sitting import single_threaded
from kernelmill.trace_schema import Definition, Workload
from kernelmill.trace_schema.errors import DatasetError

if TYPE_CHECKING:
    from kernelmill.dataset import Dataset

SETS = 2
"""Input sets a workload, two so that there is a stale answer. Whatever passes both would pass the judge's three."""


class Outcome(StrEnum):
    """What became of a mutant on a workload."""

    CAUGHT = "caught"
    SURVIVED = "survived"
    IDLE = "idle"
    """The workload leaves no room: the mutant's answer is the right one, or there is none."""


class Trial(NamedTuple):
    """One mutant on one workload."""

    mutant: Mutant
    workload: Workload
    outcome: Outcome
    strain: float
    """Its largest error as a share of what the comparator allows."""


class Survivor(NamedTuple):
    """A mutant that passes."""

    mutant: str
    workload: Workload
    why: str
    advice: str


class Hunter:
    """One definition's mutants, with its reference running in a sandbox of its own."""

    def __init__(self, definition: Definition, dataset: Dataset | None, options: JudgeOptions | None = None) -> None:
        """Raises DatasetError if the reference does not run, SandboxUnavailable."""
        self._definition = definition
        self._dataset = dataset
        self._options = options or JudgeOptions()
        self.comparator = comparator_for(definition)
        spec = comparator_of(definition)
        samplers = spec.kind == "sampling"
        self._sets, self._repeats = (self._options.verified, self._options.sessions) if samplers else (SETS, 1)
        self.mutants = list(
            wrong_samplers(str(spec.params["samples"]))
            if samplers
            else (*changed_outputs(definition), *changed_inputs(definition))
        )
        self._static: dict[tuple[str, tuple[int, ...]], torch.Tensor] = {}
        built = Forge(self._options).build(reference_solution(definition))
        if not isinstance(built.result, Artifact):
            raise DatasetError(f"the reference of {definition.name} does not build: {built.result}")
        self._reference = Reference(definition, built.result, open_sandbox(self._options.sandbox), self._options)

    def scene(self, workload: Workload) -> Scene:
        """One workload with its right answers. Raises DatasetError where it or the reference is at fault."""
        case = make_case(self._definition, workload, self._dataset)
        return Scene(case, self._reference, self.comparator, self._static, self._sets)

    def trials(self, scene: Scene) -> Iterator[Trial]:
        """Every mutant on one workload."""
        for mutant in self.mutants:
            outcome, strain = self._try(mutant, scene)
            yield Trial(mutant, scene.case.workload, outcome, strain)

    def _try(self, mutant: Mutant, scene: Scene) -> tuple[Outcome, float]:
        passed: list[tuple[Expectation, Tensors]] = []
        strain = 0.0
        for number in [*range(self._sets)] * self._repeats:
            entry = scene.sets[number]
            outputs = self._made(mutant, scene, number)
            if outputs is None or same(outputs, entry.declared):
                continue
            found = entry.expectation.judge(outputs)
            strain = max(strain, found.strain)
            if found.verdict is not None:
                return Outcome.CAUGHT, strain
            passed.append((entry.expectation, outputs))
        if not passed:
            return Outcome.IDLE, strain
        found, _ = self.comparator.conclude(passed)
        return Outcome.SURVIVED if found.verdict is None else Outcome.CAUGHT, max(strain, found.strain)

    def _made(self, mutant: Mutant, scene: Scene, number: int) -> Tensors | None:
        """The mutant's outputs; None where it has none, as where the reference refuses what it is asked."""
        try:
            return mutant.make(scene, number)
        except DatasetError:
            return None

    def close(self) -> None:
        self._reference.close()


def same(outputs: Tensors, declared: Tensors) -> bool:
    return all(torch.equal(output, declared[name]) for name, output in outputs.items())


@contextmanager
def hunting(definition: Definition, dataset: Dataset | None, options: JudgeOptions | None = None) -> Iterator[Hunter]:
    with single_threaded(), closing(Hunter(definition, dataset, options)) as hunter:
        yield hunter


def survivors(
    definition: Definition,
    workloads: Iterable[Workload],
    dataset: Dataset | None,
    options: JudgeOptions | None = None,
) -> list[Survivor]:
    """The mutants that pass, with the workload that lets them. Raises DatasetError, SandboxUnavailable."""
    with hunting(definition, dataset, options) as hunter:
        return survivors_of([trial for workload in workloads for trial in hunter.trials(hunter.scene(workload))])


def survivors_of(trials: Sequence[Trial]) -> list[Survivor]:
    """Of all trials of a definition: each that passed; of a statistical mutant that none caught, the nearest to it."""
    passed = [trial for trial in trials if trial.outcome is Outcome.SURVIVED and not trial.mutant.statistical]
    caught = {trial.mutant.name for trial in trials if trial.outcome is Outcome.CAUGHT}
    nearest: dict[str, Trial] = {}
    for trial in sorted(trials, key=lambda trial: trial.strain):
        if trial.mutant.statistical and trial.outcome is Outcome.SURVIVED and trial.mutant.name not in caught:
            nearest[trial.mutant.name] = trial
    return [survivor(trial) for trial in (*passed, *nearest.values())]


def survivor(trial: Trial) -> Survivor:
    why = f"its largest error is {trial.strain:.2g} of what the comparator allows"
    return Survivor(trial.mutant.name, trial.workload, why, trial.mutant.advice)
