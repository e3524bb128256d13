"""Comparators: what makes an output right. One file a kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelmill.trace_schema.errors import DatasetError

if TYPE_CHECKING:
    from kernelmill.evaluator.compare.base import Comparator
    from kernelmill.trace_schema import Definition

KINDS = ("elementwise", "sampling")


def comparator_for(definition: Definition) -> Comparator:
    """The definition's comparator; where it names none, `sampling` for the op type sampling, else `elementwise`."""
    from kernelmill.evaluator.compare.elementwise import Elementwise
    from kernelmill.evaluator.compare.sampling import Sampling

    kind = definition.comparator.kind if definition.comparator else None
    if kind is None and definition.op_type == "sampling":
        return Sampling.from_names(definition)
    if kind is None or kind == "elementwise":
        return Elementwise(definition)
    if kind == "sampling":
        return Sampling.from_params(definition)
    raise DatasetError(f"{definition.name}: comparator {kind!r} is not known here; known: {', '.join(KINDS)}")
