"""A loaded artifact in both forms of call: returning its outputs, or writing into given ones.

A kernel that updates an input in place works on a copy, which is taken over after it has returned: one that fails
half-way leaves what it was given as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kernelmill.apply.dispatcher import OURS, dtypes_of, generated, names_of
from kernelmill.apply.errors import ApplyError
from kernelmill.trace_schema import Definition
from kernelmill.trace_schema.definition import AxisConst


@dataclass(frozen=True, slots=True)
class Forms:
    """`value(*inputs)` returns the outputs (one alone, several as a tuple); `into(*inputs, *outputs)` returns None."""

    value: Callable[..., Any]
    into: Callable[..., Any]


def forms_of(definition: Definition, function: Callable[..., Any], *, destination_passing: bool) -> Forms:
    """`function` is the artifact's own. Raises ApplyError for a form that cannot be made of it."""
    import torch

    inputs, outputs = names_of(definition)
    updated = [spec.inout for spec in definition.outputs.values() if spec.inout]
    if updated and not destination_passing:
        raise ApplyError(
            f"{definition.name} updates {', '.join(updated)} in place, so its kernels must be destination passing"
        )
    space: dict[str, Any] = {f"{OURS}kernel": function, f"{OURS}empty": torch.empty}
    space |= dtypes_of(definition)
    name = f"kernel of {definition.name}"
    value = into = function
    if destination_passing:
        value = generated("\n".join(_value(definition, inputs, outputs)), name, "value", dict(space))
    if updated or not destination_passing:
        lines = _into(inputs, outputs, updated, passing=destination_passing)
        into = generated("\n".join(lines), name, "into", dict(space))
    return Forms(value, into)


def _value(definition: Definition, inputs: list[str], outputs: list[str]) -> Iterator[str]:
    yield f"def value({', '.join(inputs)}):"
    first = next(name for name, spec in definition.inputs.items() if spec.shape is not None and not spec.optional)
    for name in outputs:
        shape = ", ".join(_length(definition, axis) for axis in definition.outputs[name].shape or [])
        kind = definition.outputs[name].dtype.value
        yield (
            f"    {name} = {OURS}empty(({shape},), dtype={OURS}{kind}, device={first}.device)"
            if shape
            else (f"    {name} = {OURS}empty((), dtype={OURS}{kind}, device={first}.device)")
        )
    updated = {out: spec.inout for out, spec in definition.outputs.items() if spec.inout}
    yield from _call(inputs, outputs, [name for name in updated.values() if name])
    results = [updated.get(name) or name for name in definition.outputs]
    yield f"    return {', '.join(results)}"


def _into(inputs: list[str], outputs: list[str], updated: list[str], *, passing: bool) -> Iterator[str]:
    yield f"def into({', '.join([*inputs, *outputs])}):"
    if passing:
        yield from _call(inputs, outputs, updated)
        return
    results = [f"{OURS}r{at}" for at in range(len(outputs))]
    yield f"    {', '.join(results)} = {OURS}kernel({', '.join(inputs)})"
    for name, result in zip(outputs, results, strict=True):
        yield f"    {name}.copy_({result})"


def _call(inputs: list[str], outputs: list[str], updated: list[str]) -> Iterator[str]:
    scratch = {name: f"{OURS}s{at}" for at, name in enumerate(updated)}
    for name, copy in scratch.items():
        yield f"    {copy} = {name}.clone()"
    yield f"    {OURS}kernel({', '.join([*(scratch.get(name, name) for name in inputs), *outputs])})"
    for name, copy in scratch.items():
        yield f"    {name}.copy_({copy})"


def _length(definition: Definition, axis: str) -> str:
    """An axis's size as an expression over the inputs."""
    told = definition.axes[axis]
    if isinstance(told, AxisConst):
        return str(told.value)
    for name, spec in definition.inputs.items():
        if spec.shape is not None and axis in spec.shape and not spec.optional:
            return f"{name}.size({spec.shape.index(axis)})"
    raise ApplyError(
        f"{definition.name}: no input tells the size of {axis!r}, so its outputs cannot be made; pass them"
    )
