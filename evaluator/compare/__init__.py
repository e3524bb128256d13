"""Comparators: what makes an output right. One file a kind; `defaults` chooses where a definition names none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kernelmill.evaluator.compare.defaults import comparator_of
from kernelmill.trace_schema.errors import DatasetError

if TYPE_CHECKING:
    from kernelmill.evaluator.compare.base import Comparator
    from kernelmill.trace_schema import Definition

KINDS = ("elementwise", "sampling", "lowbit", "attention", "topk_set", "state")


def comparator_for(definition: Definition) -> Comparator:
    """The definition's comparator, else the default for what it computes. Raises DatasetError for unfit params."""
    chosen = comparator_of(definition)
    if chosen.kind not in KINDS:
        raise DatasetError(
            f"{definition.name}: comparator {chosen.kind!r} is not known here; known: {', '.join(KINDS)}"
        )
    return _makers()[chosen.kind](definition, chosen.params)


def _makers() -> dict[str, Callable[[Definition, Mapping[str, Any]], Comparator]]:
    from kernelmill.evaluator.compare.attention import Attention
    from kernelmill.evaluator.compare.elementwise import Elementwise
    from kernelmill.evaluator.compare.lowbit import Lowbit
    from kernelmill.evaluator.compare.sampling import Sampling
    from kernelmill.evaluator.compare.state import State
    from kernelmill.evaluator.compare.topk_set import TopkSet

    classes = (Elementwise, Sampling, Lowbit, Attention, TopkSet, State)
    return dict(zip(KINDS, classes, strict=True))
