"""Honest kernels pass: other orders, splits and roundings of every shipped definition, on its own workloads."""

from __future__ import annotations

import json
import math
from functools import cache

import pytest
import torch

from kernelmill.dataset import Dataset
from kernelmill.dataset.paths import default_path
from kernelmill.evaluator.case import make_case
from kernelmill.evaluator.compare import comparator_for
from kernelmill.evaluator.demo import SLICE
from kernelmill.evaluator.inputs import Inputs
from kernelmill.trace_schema import Workload
from tests.evaluator.honest import VARIANTS, arguments, named, truth_of

SMALL = 1
"""So many of the smallest workloads stand for the others where time matters."""
APART = 8
"""Of the others, by size, one in so many and the largest."""


@cache
def dataset() -> Dataset:
    return Dataset.open(default_path())


def workloads(name: str) -> list[Workload]:
    """By the size of what they move."""
    definition = dataset().definitions[name]

    def size(workload: Workload) -> int:
        axes = definition.resolve_axes(workload.axes)
        return sum(math.prod(definition.shape(tensor, axes) or ()) for tensor in definition.inputs)

    return sorted(dataset().workloads(name), key=size)


def check(name: str, workload: Workload) -> None:
    """Every variant on one workload, with new inputs."""
    definition = dataset().definitions[name]
    case = make_case(definition, workload, dataset())
    inputs = Inputs(case, {})
    tensors = inputs.copy(inputs.draw())
    comparator = comparator_for(definition)
    expected = comparator.prepare(case, tensors, truth_of(case, tensors))
    for variant, compute in VARIANTS[name].items():
        outputs = named(definition, compute(*arguments(case, tensors)))
        found = expected.judge(outputs)
        assert found.verdict is None, f"{variant} on {dict(workload.axes)}: {found.reason}"
        finding, _ = comparator.conclude([(expected, outputs)])
        assert finding.verdict is None, f"{variant} on {dict(workload.axes)}: {finding.reason}"


@pytest.mark.parametrize("name", VARIANTS)
def test_honest_variants_pass_on_small_workloads(name: str) -> None:
    torch.manual_seed(0)
    for workload in workloads(name)[:SMALL]:
        check(name, workload)


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_honest_variants_pass_on_workloads_of_every_size(name: str) -> None:
    torch.manual_seed(0)
    for workload in workloads(name)[:SMALL:-APART]:
        check(name, workload)


def test_every_definition_of_the_demo_slice_has_three_honest_variants() -> None:
    assert set(VARIANTS) == set(json.loads((default_path() / SLICE).read_text()))
    assert all(len(of_one) >= 3 for of_one in VARIANTS.values())
