"""What a call must at least move and compute: the definition's expressions, else every tensor once."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from kernelmill.evaluator.dtypes import item_bytes
from kernelmill.trace_schema import Definition, Workload, constraints


class Work(NamedTuple):
    """Least bytes and operations of one call."""

    bytes: float
    flops: float


def work_of(definition: Definition, workload: Workload) -> Work:
    """Follows from the axes alone, so nothing is loaded. Raises DatasetError where the axes do not fit."""
    axes = definition.resolve_axes(workload.axes)
    cost = definition.cost
    given_bytes = _value(cost.bytes, axes) if cost and cost.bytes else None
    flops = _value(cost.flops, axes) if cost and cost.flops else 0.0
    return Work(_every_tensor(definition, workload, axes) if given_bytes is None else given_bytes, flops)


def _every_tensor(definition: Definition, workload: Workload, axes: Mapping[str, int]) -> float:
    """Bytes of all inputs that the workload gives, and of all outputs."""
    left_out = {name for name, spec in definition.inputs.items() if spec.optional and name not in workload.inputs}
    total = 0
    for name, spec in (*definition.inputs.items(), *definition.outputs.items()):
        shape = definition.shape(name, axes)
        if name in left_out or (shape is None and name in definition.inputs):
            continue
        total += item_bytes(spec.dtype.value) * prod(shape or ())
    return float(total)


def _value(expression: str, axes: Mapping[str, int]) -> float:
    return float(constraints.evaluate(expression, axes, {}))
