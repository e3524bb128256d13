"""Mutants of the answer itself: the reference's outputs, one of them changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from kernelmill.evaluator.compare.defaults import comparator_of
from kernelmill.evaluator.mutants.scene import Answered, Make, Mutant, Scene, Tensors
from kernelmill.trace_schema import Definition

SPREAD = "give the inputs a distribution under which this output varies more, or name a stricter comparator"
ROWS = "give the inputs a distribution under which rows differ more, or name a comparator that looks at every row"
FRESH = "let the inputs that this output depends on be random, so that every call has another answer"
STATE = "name the comparator state, with the input that says which slots a call updates"


class Change(NamedTuple):
    """A change of one output, given that output; None where there is nothing to change."""

    name: str
    apply: Callable[[torch.Tensor], torch.Tensor | None]
    advice: str
    floating: bool = False
    """Whether integers can't be changed so."""


def zeros(output: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(output)


def constant(output: torch.Tensor) -> torch.Tensor:
    """The mean everywhere."""
    values = output.double()
    return torch.full_like(values, float(values[torch.isfinite(values)].mean())).to(output.dtype)


def scaled(output: torch.Tensor) -> torch.Tensor:
    return (output.double() * 1.01).to(output.dtype)


def last_row_skipped(output: torch.Tensor) -> torch.Tensor | None:
    if not output.dim():
        return None
    skipped = output.clone()
    skipped[-1] = 0
    return skipped


def rows_swapped(output: torch.Tensor) -> torch.Tensor | None:
    """The first two rows in each other's place."""
    if not output.dim() or len(output) < 2:
        return None
    swapped = output.clone()
    swapped[0], swapped[1] = output[1], output[0]
    return swapped


def one_nan(output: torch.Tensor) -> torch.Tensor:
    """In the middle, where a kernel's tail handling does not reach."""
    broken = output.flatten().clone()
    broken[len(broken) // 2] = torch.nan
    return broken.reshape(output.shape)


CHANGES = (
    Change("zeros", zeros, SPREAD),
    Change("constant", constant, SPREAD),
    Change("scaled by 1 %", scaled, SPREAD, floating=True),
    Change("last row skipped", last_row_skipped, ROWS),
    Change("rows swapped", rows_swapped, ROWS),
    Change("one NaN", one_nan, "name a comparator that refuses NaN", floating=True),
)


def changed_outputs(definition: Definition) -> Iterator[Mutant]:
    """Each change of each output, the others right; and outputs that another call or an input gave."""
    for name, spec in definition.outputs.items():
        for change in CHANGES:
            if spec.dtype.is_float or not change.floating:
                yield Mutant(f"{change.name} in {name}", _changing(name, change), change.advice)
        yield Mutant(f"stale {name}", stale(name), FRESH)
        if source := _like(definition, name):
            yield Mutant(f"{source} returned as {name}", _returned(source, name), SPREAD)
    if comparator_of(definition).kind == "state":
        yield Mutant("a slot of another call changed", _trespassing(definition), STATE)


def _changing(name: str, change: Change) -> Make:
    def make(scene: Scene, number: int) -> Tensors | None:
        declared = scene.sets[number].declared
        output = change.apply(declared[name]) if declared[name].numel() else None
        return None if output is None else {**declared, name: output}

    return make


def stale(name: str) -> Make:
    def make(scene: Scene, number: int) -> Tensors | None:
        before = scene.sets[number - 1].declared[name]
        return {**scene.sets[number].declared, name: before}

    return make


def _like(definition: Definition, name: str) -> str | None:
    """An input of the output's shape and type: the one it updates in place, else the first."""
    spec = definition.outputs[name]
    alike = [
        source for source, given in definition.inputs.items() if (given.shape, given.dtype) == (spec.shape, spec.dtype)
    ]
    return spec.inout or next(iter(alike), None)


def _returned(source: str, name: str) -> Make:
    def make(scene: Scene, number: int) -> Tensors | None:
        tensors, declared, _ = scene.sets[number]
        return {**declared, name: tensors[source]} if source in tensors else None

    return make


def _trespassing(definition: Definition) -> Make:
    """The lowest bit of one number flipped in the first slot that the call does not update."""
    params = comparator_of(definition).params
    states = params["state"] if isinstance(params["state"], list) else [params["state"]]

    def make(scene: Scene, number: int) -> Tensors | None:
        entry = scene.sets[number]
        pool = entry.declared[str(states[0])].clone()
        slots = pool.flatten(0, int(params.get("axes", 1)) - 1)
        free = _untouched(entry, str(params["indices"]), len(slots))
        if free is None:
            return None
        slots[free].view(torch.uint8).view(-1)[0] ^= 1
        return {**entry.declared, str(states[0]): pool}

    return make


def _untouched(entry: Answered, indices: str, slots: int) -> int | None:
    used = set(entry.tensors[indices].flatten().tolist())
    return next((slot for slot in range(slots) if slot not in used), None)
