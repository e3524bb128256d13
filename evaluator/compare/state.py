"""Comparator kind "state": slots of a pool that are updated, and others that must stay. Params: state, indices[, axes].

`state` names the outputs (one, or a list) that hold a pool's new content, `indices` the input that says which slots a
call updates; a negative index updates none. Updated slots are bounded elementwise, as every other output is. All other
slots must be, bit for bit, what they were before the call: the input that the output updates in place, or X for an
output called new_X. Slots are counted along the pool's first axis, or the first `axes` of them (2 for a cache of pages
whose slots are places in a page).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from kernelmill.evaluator.compare.base import AllOf, Comparator, Expectation, Finding, Truth, wrong
from kernelmill.evaluator.compare.defaults import initial_of, tensor_names
from kernelmill.evaluator.compare.elementwise import Elementwise, judged
from kernelmill.evaluator.compare.errors import Bound
from kernelmill.trace_schema import Definition
from kernelmill.trace_schema.errors import DatasetError

if TYPE_CHECKING:
    from kernelmill.evaluator.case import Case


class UpdatedSlots(Expectation):
    """The slots that a call updates within their bound, all others untouched."""

    def __init__(self, name: str, touched: torch.Tensor, before: torch.Tensor, bound: Bound) -> None:
        """`touched`: a mask over slots. `before`: the pool as [slots, ...]. `bound`: that of the touched slots."""
        self._name = name
        self._touched = touched
        self._kept = before[~touched]
        self._bound = bound

    def judge(self, outputs: Mapping[str, torch.Tensor]) -> Finding:
        pool = outputs[self._name].reshape(len(self._touched), *self._kept.shape[1:])
        changed = ~same_bits(pool[~self._touched], self._kept)
        if bool(changed.any()):
            return wrong(f"output {self._name!r}: {int(changed.sum())} slots changed that the call must not touch")
        return judged(self._name, pool[self._touched], self._bound)


class State(Comparator):
    """Compares the updated slots of pools, and every other output, elementwise."""

    def __init__(self, definition: Definition, params: Mapping[str, Any]) -> None:
        state = params.get("state", [])
        self._states = [str(name) for name in (state if isinstance(state, list) else [state])]
        listed = {f"state[{number}]": name for number, name in enumerate(self._states)}
        named = tensor_names(definition, {**params, **listed}, "indices", *listed)
        if not self._states or "indices" not in named:
            raise DatasetError(
                f"{definition.name}: comparator state needs params state and indices, got {dict(params)}"
            )
        self._indices = named["indices"]
        self._axes = int(params.get("axes", 1))
        self._definition = definition
        self._others = Elementwise(definition)

    def prepare(self, case: Case, inputs: Mapping[str, torch.Tensor], truth: Truth) -> Expectation:
        parts = [
            self._slots(output.name, inputs, truth)
            if output.name in self._states
            else self._others.expect(output.name, truth)
            for output in case.outputs
        ]
        return AllOf(parts)

    def _slots(self, name: str, inputs: Mapping[str, torch.Tensor], truth: Truth) -> Expectation:
        before, declared, exact = (
            pool.flatten(0, self._axes - 1)
            for pool in (inputs[initial_of(self._definition, name)], truth.declared[name], truth.best(name))
        )
        indices = inputs[self._indices].long().flatten()
        touched = torch.zeros(len(before), dtype=torch.bool, device=before.device)
        touched[indices[indices >= 0]] = True
        if not bool(same_bits(declared[~touched], before[~touched]).all()):
            raise DatasetError(
                f"the reference of {self._definition.name} changes slots of {name!r} that {self._indices!r} does not "
                "name; mend it, or name another comparator"
            )
        return UpdatedSlots(name, touched, before, self._others.bound(name, declared[touched], exact[touched]))

    def agree(self, outputs: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor]) -> bool | None:
        return self._others.agree(outputs, others)


def same_bits(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    """By slot (the first axis): whether every bit is the same."""
    if one.numel() == 0:
        return torch.ones(len(one), dtype=torch.bool, device=one.device)
    bits = [pool.contiguous().reshape(len(pool), -1).view(torch.uint8) for pool in (one, two)]
    return (bits[0] == bits[1]).all(-1)
