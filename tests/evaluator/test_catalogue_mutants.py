"""Every template, at small constants: its comparator lets its torch solution pass, and no wrong answer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernelmill.dataset import Dataset
from kernelmill.evaluator.compare.base import Expectation
from kernelmill.evaluator.mutants.hunt import Hunter, Trial, hunting, survivors_of
from kernelmill.evaluator.mutants.scene import Scene, Tensors
from kernelmill.evaluator.mutants.validation import untested
from kernelmill.evaluator.sandbox import probe
from tests.dataset.catalogue.small import KINDS, place, solution
from tests.evaluator.honest import arguments

sandboxed = pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")


def assert_honest(kind: str, hunter: Hunter, scene: Scene) -> None:
    """The solution's answers to every input set, alone and together."""
    judged: list[tuple[Expectation, Tensors]] = []
    for entry in scene.sets:
        given = {name: tensor.clone() for name, tensor in entry.tensors.items()}
        outputs, passed = {}, []
        for name, right in entry.declared.items():
            outputs[name] = given[scene.case.inout[name]] if name in scene.case.inout else torch.full_like(right, 77)
            passed += [] if name in scene.case.inout else [outputs[name]]
        solution(kind)(*arguments(scene.case, given), *passed)
        found = entry.expectation.judge(outputs)
        assert found.verdict is None, f"{kind} on {dict(scene.case.workload.axes)}: {found.reason}"
        judged.append((entry.expectation, outputs))
    assert hunter.comparator.conclude(judged)[0].verdict is None


@sandboxed
@pytest.mark.parametrize("kind", KINDS)
def test_a_template_tells_right_from_wrong(kind: str, tmp_path: Path) -> None:
    place(tmp_path, kind)
    dataset = Dataset.open(tmp_path, cache_dir=tmp_path / "cache")
    (definition,) = dataset.definitions.values()
    trials: list[Trial] = []
    with hunting(definition, dataset) as hunter:
        for workload in list(dataset.workloads(definition))[::2]:
            scene = hunter.scene(workload)
            assert_honest(kind, hunter, scene)
            trials += hunter.trials(scene)
    assert survivors_of(trials) == []
    assert untested(trials) == []
