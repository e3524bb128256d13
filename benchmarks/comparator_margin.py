"""How far honest kernels stay below what a comparator allows, and how far wrong ones are above it.

`python -m benchmarks.comparator_margin [-d DEFINITION]…`: for every shipped definition, over all its workloads, the
largest error of an honest variant (tests/evaluator/honest.py) and the smallest of a mutant, as shares of the bound. A
mutant that only many answers show counts with the workload that shows it best.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from kernelmill.dataset import Dataset
from kernelmill.dataset.paths import default_path
from kernelmill.evaluator.compare.base import Expectation
from kernelmill.evaluator.compare.defaults import comparator_of
from kernelmill.evaluator.mutants.hunt import Hunter, Outcome, hunting
from kernelmill.evaluator.mutants.scene import Scene, Tensors
from kernelmill.trace_schema import Definition, Workload
from tests.evaluator.honest import arguments, named, variants


class Strain(NamedTuple):
    """An error as a share of the bound, and whose it is."""

    share: float
    who: str

    def __str__(self) -> str:
        return f"{self.share:>9.3g}  {self.who:<38}"


def honest(hunter: Hunter, scene: Scene, definition: Definition) -> Iterator[Strain]:
    for name, variant in variants(definition):
        judged: list[tuple[Expectation, Tensors]] = []
        worst = 0.0
        for entry in scene.sets:
            outputs = named(definition, variant(*arguments(scene.case, entry.tensors)))
            worst = max(worst, entry.expectation.judge(outputs).strain)
            judged.append((entry.expectation, outputs))
        yield Strain(max(worst, hunter.comparator.conclude(judged)[0].strain), name)


def margins(definition: Definition, workloads: list[Workload], dataset: Dataset) -> tuple[Strain, Strain]:
    """The worst honest strain and the best mutant's."""
    worst = Strain(0.0, "-")
    mutants: dict[str, float] = {}
    with hunting(definition, dataset) as hunter:
        for workload in workloads:
            scene = hunter.scene(workload)
            worst = max(worst, *honest(hunter, scene, definition))
            for mutant, _, outcome, strain in hunter.trials(scene):
                if outcome is not Outcome.IDLE:
                    choose = max if mutant.statistical else min
                    mutants[mutant.name] = choose(strain, mutants.get(mutant.name, strain))
    return worst, min(Strain(strain, name) for name, strain in mutants.items())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-d", "--definition", action="append", default=[])
    wanted = parser.parse_args().definition
    dataset = Dataset.open(default_path())
    print(f"{'definition':<46} {'comparator':<12} {'honest, worst':>9}{'':<36} {'mutant, best':>9}")
    for name, definition in dataset.definitions.items():
        if not wanted or name in wanted:
            worst, best = margins(definition, list(dataset.workloads(definition)), dataset)
            print(f"{name:<46} {comparator_of(definition).kind:<12} {worst} {best}", flush=True)


if __name__ == "__main__":
    main()
