"""Comparators at work without a judge: a definition of given tensors, and what it expects of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch

from kernelmill.evaluator.case import Case, Tensor
from kernelmill.evaluator.compare import comparator_for
from kernelmill.evaluator.compare.base import Comparator, Expectation, Truth
from kernelmill.trace_schema import Definition, Workload
from tests.builders import raw_definition, raw_workload

Tensors = Mapping[str, torch.Tensor]


def dtype_of(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def definition_of(inputs: Tensors, outputs: Tensors, **over: Any) -> Definition:
    """A definition with these inputs and outputs; axes are called after their tensor and place, or `over["shapes"]`."""
    shapes: dict[str, list[str]] = over.pop("shapes", {})
    names = {
        name: shapes.get(name, [f"{name}_{place}" for place in range(tensor.dim())])
        for name, tensor in {**inputs, **outputs}.items()
    }
    specs = {name: {"shape": names[name], "dtype": dtype_of(tensor)} for name, tensor in {**inputs, **outputs}.items()}
    raw = raw_definition(
        axes={axis: {"type": "var"} for shape in names.values() for axis in shape},
        inputs={name: specs[name] for name in inputs},
        outputs={name: specs[name] for name in outputs},
        **over,
    )
    return Definition.model_validate(raw)


class Compared:
    """A comparator and what it expects for one set of inputs after another."""

    def __init__(self, definition: Definition, axes: Mapping[str, int] | None = None) -> None:
        self.definition = definition
        self.axes = axes or {}
        self.comparator: Comparator = comparator_for(definition)

    def expect(self, inputs: Tensors, declared: Tensors, exact: Tensors | None = None) -> Expectation:
        outputs = tuple(Tensor(name, tuple(t.shape), dtype_of(t), "output") for name, t in declared.items())
        workload = Workload.model_validate(raw_workload())
        nothing: Mapping[str, Any] = MappingProxyType({})
        case = Case(self.definition, workload, self.axes, (), outputs, nothing, nothing)
        return self.comparator.prepare(case, inputs, Truth(declared, exact or declared, 0.0))
