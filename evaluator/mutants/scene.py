"""Where mutants act: one workload with a few input sets, their right answers, and the reference at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from kernelmill.evaluator.case import Case, Tensor
from kernelmill.evaluator.compare.base import Comparator, Expectation
from kernelmill.evaluator.inputs import Content, Inputs
from kernelmill.evaluator.reference import Reference

Tensors = Mapping[str, torch.Tensor]


class Answered(NamedTuple):
    """One input set: what was asked, what the reference answers, and what the comparator makes of it."""

    tensors: Tensors
    declared: Tensors
    expectation: Expectation


class Scene:
    """One workload, its input sets, and a way to ask the reference something else."""

    def __init__(
        self,
        case: Case,
        reference: Reference,
        comparator: Comparator,
        static: dict[tuple[str, tuple[int, ...]], torch.Tensor],
        sets: int,
    ) -> None:
        """`static` holds the weights that all workloads of a definition share."""
        self.case = case
        self._reference = reference
        inputs = Inputs(case, static)
        reference.prepare(case, inputs)
        self.sets = [self._answer(inputs, inputs.draw(), comparator) for _ in range(sets)]

    def _answer(self, inputs: Inputs, content: Content, comparator: Comparator) -> Answered:
        tensors, truth = inputs.copy(content), self._reference.answer(inputs, content)
        return Answered(tensors, truth.declared, comparator.prepare(self.case, tensors, truth))

    def ask(self, tensors: Tensors, axes: Mapping[str, int] | None = None) -> Tensors:
        """What the reference answers to these inputs, at other axes where they have other shapes."""
        case = given(self.case, tensors, axes or self.case.axes)
        inputs = Inputs(case, {})
        self._reference.prepare(case, inputs)
        return self._reference.answer(inputs, Content({}, {}, {}), exact=False).declared


def given(case: Case, tensors: Tensors, axes: Mapping[str, int]) -> Case:
    """The case with every input fixed to these tensors."""
    inputs = tuple(
        _fixed(case, argument, axes) if isinstance(argument, Tensor) else argument for argument in case.inputs
    )
    outputs = tuple(replace(output, shape=case.definition.shape(output.name, axes) or ()) for output in case.outputs)
    return replace(case, axes=axes, inputs=inputs, outputs=outputs, fixed=tensors)


def _fixed(case: Case, tensor: Tensor, axes: Mapping[str, int]) -> Tensor:
    return replace(tensor, role="static", shape=case.definition.shape(tensor.name, axes) or ())


Make = Callable[[Scene, int], Tensors | None]
"""Wrong outputs for a scene's input set of that number; None where the workload leaves no room to be wrong."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One way to be wrong."""

    name: str
    make: Make
    advice: str
    """What to change in a definition or workload that lets it pass."""
    statistical: bool = False
    """Whether it takes many answers to see: then it must be caught on one workload, not on each."""
