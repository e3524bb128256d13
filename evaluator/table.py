"""One workload laid out for judging: inputs, lent memory, and a secret pool of input sets with known right answers.

The pool's answers are computed once and serve every solution and session of the sitting.
"""

from __future__ import annotations

import math
import secrets
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kernelmill.evaluator import machine
from kernelmill.evaluator.case import Case
from kernelmill.evaluator.compare.base import Comparator, Expectation
from kernelmill.evaluator.cost import Work, work_of
from kernelmill.evaluator.inputs import Content, Inputs
from kernelmill.evaluator.layout import InputMemory, slots_for
from kernelmill.evaluator.reference import Reference

if TYPE_CHECKING:
    import torch


CHEAP_ELEMENTS = 1 << 18
"""Inputs of so many elements are sorted in about ten milliseconds."""


class VerifiedSet(NamedTuple):
    """Inputs whose right answer is known to the judge alone."""

    content: Content
    expectation: Expectation


class Table:
    """What all contestants share on one workload."""

    def __init__(
        self,
        case: Case,
        reference: Reference,
        comparator: Comparator,
        static: dict[tuple[str, tuple[int, ...]], torch.Tensor],
        verified: int,
    ) -> None:
        self.case = case
        self.comparator = comparator
        self.inputs = Inputs(case, static)
        self._reference = reference
        reference.prepare(case, self.inputs)
        self.reference_s = float("inf")
        self.pool = [self._solve(self.inputs.draw()) for _ in range(verified)]
        self._looked_at: set[int] = set()
        self._elements = sum(math.prod(tensor.shape) for tensor in case.tensors)
        self.null_s = reference.null_seconds()
        self.memory = self._lay_out()
        self.work: Work = work_of(case.definition, case.workload)
        self._flush = np.zeros(2 * machine.l2_bytes() // 8, dtype=np.int64)

    def _lay_out(self) -> InputMemory:
        fixed = [tensor for tensor in self.case.tensors if tensor.name in self.inputs.fixed and tensor.role != "inout"]
        moving = [tensor for tensor in self.inputs.dynamic if tensor.role != "inout"]
        memory = InputMemory(fixed, moving, slots_for(self.case, machine.l2_bytes()))
        for tensor in fixed:
            memory.fixed_tensor(tensor).copy_(self.inputs.fixed[tensor.name])
        return memory

    def _solve(self, content: Content) -> VerifiedSet:
        truth = self._reference.answer(self.inputs, content)
        self.reference_s = min(self.reference_s, truth.seconds)
        expectation = self.comparator.prepare(self.case, self.inputs.copy(content), truth)
        return VerifiedSet(content, expectation)

    def solve(self, content: Content) -> Expectation:
        """The right answer to a set that is not in the pool."""
        return self._solve(content).expectation

    def expect(self, content: Content) -> Expectation | None:
        """What is right for this content, where that takes no reference and little time; else None."""
        if self.comparator.needs_reference or self._elements > CHEAP_ELEMENTS:
            return None
        return self.comparator.prepare(self.case, self.inputs.copy(content), None)  # type: ignore[arg-type]

    def first_look(self, entry: VerifiedSet) -> bool:
        """Whether the baseline's answer to this set was not yet verified: once a sitting is enough."""
        first = id(entry) not in self._looked_at
        self._looked_at.add(id(entry))
        return first

    def deal(self, content: Content) -> int:
        """Write `content` into a slot chosen at random; its number."""
        slot = secrets.randbelow(self.memory.dynamic.slots)
        for tensor in self.memory.dynamic.tensors:
            self.inputs.write(content, tensor.name, self.memory.dynamic_tensor(slot, tensor))
        return slot

    def flush(self) -> None:
        """Push what the last player left out of this core's second-level cache."""
        self._flush += 1

    def close(self) -> None:
        self.memory.close()
        self._reference.release()
