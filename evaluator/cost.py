"""What a call must at least move and compute: the definition's expressions, else every tensor once."""

from __future__ import annotations

from typing import NamedTuple

from kernelmill.evaluator.case import Case
from kernelmill.trace_schema import constraints


class Work(NamedTuple):
    """Least bytes and operations of one call."""

    bytes: float
    flops: float


def work_of(case: Case) -> Work:
    cost = case.definition.cost
    given_bytes = _value(case, cost.bytes) if cost and cost.bytes else None
    flops = _value(case, cost.flops) if cost and cost.flops else 0.0
    every = sum(tensor.size_bytes for tensor in (*case.tensors, *case.outputs))
    return Work(float(every) if given_bytes is None else given_bytes, flops)


def _value(case: Case, expression: str) -> float:
    return float(constraints.evaluate(expression, case.axes, {}))
