"""One function a definition, generated when it is first called: does this call fit, and have its sizes been seen?

A call of known sizes costs the checks, one look-up and one count. What is checked is what a workload must be able to
say: plain tensors of the declared types and ranks whose sizes agree, no axis of size 0. Device, strides and gradients
do not matter here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kernelmill.apply.dispatcher import OURS, check_lines, dtypes_of, generated, names_of, required_of, size_of
from kernelmill.apply.errors import ApplyError
from kernelmill.apply.features import features_of
from kernelmill.apply.tracing.strata import Entry, Strata
from kernelmill.trace_schema import Definition

Probe = Callable[..., str | None]
WRONG = "the arguments are not what the definition says"
EMPTY = "an axis has size 0"

Keep = Callable[[Entry, int, tuple[int, ...], tuple[Any, ...]], None]
"""Told of an entry, the call's number there, the sizes of the variable axes in order, and the inputs."""


def make_probe(definition: Definition, strata: Strata, keep: Keep) -> Probe:
    """The result takes a call's arguments and returns None, or why it does not fit. It may raise what `apply` expects
    of checks. Raises ApplyError for a definition whose calls cannot be told by their shapes."""
    import torch

    space: dict[str, Any] = {
        f"{OURS}plain": frozenset({torch.Tensor, torch.nn.Parameter}),
        f"{OURS}seen": strata.exact,
        f"{OURS}find": strata.find,
        f"{OURS}keep": keep,
        f"{OURS}unfit": WRONG,
        f"{OURS}empty": EMPTY,
        **dtypes_of(definition),
    }
    source = "\n".join(_lines(definition)) + "\n"
    made: Probe = generated(source, f"probe of {definition.name}", "probe", space)
    return made


def _lines(definition: Definition) -> Iterator[str]:
    inputs, outputs = names_of(definition)
    required = required_of(definition)
    defaults = [f"{name}=None" for name in (*inputs[len(required) :], *outputs)]
    yield f"def probe({', '.join([*required, *defaults])}):"
    places: dict[str, str] = {}
    for name in inputs:
        spec = definition.inputs[name]
        fits = (f"{name}.__class__ in {OURS}plain", f"{name}.dtype is {OURS}{spec.dtype.value}")
        yield from check_lines(name, spec, definition, places, fits)
    if unknown := [axis for axis in definition.var_axes if axis not in places]:
        raise ApplyError(f"no input's shape tells {', '.join(unknown)}")
    sizes = [places[axis] for axis in definition.var_axes]
    if sizes:
        yield f"    if not ({' and '.join(sizes)}): return {OURS}empty"
    yield f"    {OURS}key = ({''.join(f'{size_of(feature, places)}, ' for feature in features_of(definition))})"
    yield f"    {OURS}entry = {OURS}seen.get({OURS}key)"
    yield f"    if {OURS}entry is None: {OURS}entry = {OURS}find({OURS}key)"
    yield f"    {OURS}number = next({OURS}entry.calls)"
    yield f"    if {OURS}number >= {OURS}entry.due:"
    axes, values = "".join(f"{size}, " for size in sizes), "".join(f"{name}, " for name in inputs)
    yield f"        {OURS}keep({OURS}entry, {OURS}number, ({axes}), ({values}))"
