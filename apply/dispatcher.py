"""One function a definition, generated once: it checks what a call must be, finds the cell of its sizes, calls.

What is checked in the call is what decides whether a kernel may touch this memory at all: plain tensors of the declared
types and ranks on this device, contiguous, of sizes that agree with each other and with the constant axes, no gradient
wanted, outputs that overlap no input. The rest of what a kernel means (a window, a soft cap, an epsilon) only an
adapter can know, and it asks before it comes here.

Every name in the generated text is ours or was checked to be a plain identifier.
"""

from __future__ import annotations

import keyword
import linecache
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelmill.apply.errors import ApplyError
from kernelmill.apply.features import Feature
from kernelmill.apply.grid import Grid
from kernelmill.apply.missed import Missed
from kernelmill.trace_schema import Definition
from kernelmill.trace_schema.definition import AxisConst, TensorSpec

OURS = "_km_"
SMALL = 1 << 14
"""Sizes that a list may have: 128 KiB of it."""


@dataclass(slots=True)
class Dispatcher:
    """What the generated function reads. A kernel is taken out by emptying its places in `value` and `into`."""

    definition: Definition
    features: tuple[Feature, ...]
    grid: Grid
    value: list[Callable[..., Any] | None]
    """By cell: takes the inputs, returns the outputs."""
    into: list[Callable[..., Any] | None]
    """By cell: takes the inputs and the passed outputs."""
    failed: Callable[[int, Exception], Missed]
    """Told of a kernel's exception by cell."""
    draws: list[Iterator[Missed | None]] | None = None
    """By cell: None for a plain call, else what is to happen beside it. None where no call is ever drawn."""
    counts: bool = True
    """Whether calls are counted by cell, which costs some 40 ns each."""
    calls: list[int] = field(default_factory=list)
    """By cell: how often its kernel served, where it is counted."""
    uncovered: Missed = field(default_factory=lambda: Missed("no kernel covers these sizes"))
    unfit: Missed = field(default_factory=lambda: Missed("the arguments are not what the definition says"))
    source: str = ""

    @property
    def small(self) -> list[int] | None:
        """The cell of each size up to the largest that is served, where there is one feature and they are few."""
        if len(self.grid.cuts) != 1 or not self.grid.cuts[0] or self.grid.cuts[0][-1] > SMALL:
            return None
        return [self.grid.cell((size,)) for size in range(self.grid.cuts[0][-1])]

    def compile(self, device: str) -> Callable[..., Any]:
        """`device`: cpu or cuda:0. The result returns the kernel's answer, or a Missed."""
        import torch

        self.calls = self.calls or [0] * len(self.grid.cells)
        self.source = "\n".join(_lines(self, device)) + "\n"
        space: dict[str, Any] = {
            f"{OURS}bisect": bisect_right,
            f"{OURS}small": self.small,
            f"{OURS}plain": frozenset({torch.Tensor, torch.nn.Parameter}),
            f"{OURS}grad": torch.is_grad_enabled,
            f"{OURS}value": self.value,
            f"{OURS}into": self.into,
            f"{OURS}calls": self.calls,
            f"{OURS}draws": self.draws,
            f"{OURS}failed": self.failed,
            f"{OURS}uncovered": self.uncovered,
            f"{OURS}unfit": self.unfit,
            **{f"{OURS}cuts{at}": cuts for at, cuts in enumerate(self.grid.cuts)},
            **dtypes_of(self.definition),
        }
        return generated(self.source, f"dispatch of {self.definition.name}", "dispatch", space)


def generated(source: str, name: str, function: str, space: dict[str, Any]) -> Callable[..., Any]:
    """The function of that name out of generated text, which tracebacks can show."""
    file = f"<kernelmill {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    exec(compile(source, file, "exec"), space)
    made: Callable[..., Any] = space[function]
    return made


def names_of(definition: Definition) -> tuple[list[str], list[str]]:
    """Inputs, and the outputs that are arguments of their own. Raises ApplyError for a name that is no identifier."""
    outputs = [name for name, spec in definition.outputs.items() if spec.inout is None]
    for name in (*definition.inputs, *definition.outputs):
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith(OURS):
            raise ApplyError(f"{definition.name}: {name!r} cannot be an argument's name; rename it in the definition")
    return list(definition.inputs), outputs


def dtypes_of(definition: Definition) -> dict[str, Any]:
    """torch's types by the names that generated text calls them. Raises ApplyError for one that torch here lacks."""
    import torch

    found = {}
    for spec in (*definition.inputs.values(), *definition.outputs.values()):
        kind = getattr(torch, spec.dtype.value, None)
        if kind is None:
            raise ApplyError(f"{definition.name}: torch {torch.__version__} has no {spec.dtype.value}; a newer one may")
        found[f"{OURS}{spec.dtype.value}"] = kind
    return found


def _lines(own: Dispatcher, device: str) -> Iterator[str]:
    definition = own.definition
    inputs, outputs = names_of(definition)
    required = required_of(definition)
    defaults = [f"{name}=None" for name in (*inputs[len(required) :], *outputs)]
    yield f"def dispatch({', '.join([*required, *defaults])}):"
    places: dict[str, str] = {}
    for name in inputs:
        spec = definition.inputs[name]
        yield from check_lines(name, spec, definition, places, _fits(name, device, spec))
    yield from _grad(definition)
    yield from _find(own, places)
    plain = ", ".join(inputs)
    if outputs:
        yield f"    if {outputs[0]} is not None:"
        for line in _into(definition, outputs, places, device):
            yield f"    {line}"
        yield from _serve("into", f"{plain}, {', '.join(outputs)}", own, "        ")
    yield from _serve("value", plain, own, "    ")


def _find(own: Dispatcher, places: dict[str, str]) -> Iterator[str]:
    """The cell of a call. With one feature whose sizes are few a list has them all, which is read faster than cut."""
    sizes = [size_of(feature, places) for feature in own.features]
    if len(sizes) == 1 and own.small is not None:
        yield f"    if {sizes[0]} >= {len(own.small)}: return {OURS}uncovered"
        yield f"    {OURS}cell = {OURS}small[{sizes[0]}]"
        return
    terms = [
        f"{OURS}bisect({OURS}cuts{at}, {size})" + (f" * {stride}" if stride != 1 else "")
        for at, (size, stride) in enumerate(zip(sizes, own.grid.strides, strict=True))
    ]
    yield f"    {OURS}cell = {' + '.join(terms) or '0'}"


def required_of(definition: Definition) -> list[str]:
    """Inputs up to the last one that callers must give."""
    names = list(definition.inputs)
    while names and definition.inputs[names[-1]].optional:
        names.pop()
    return names


def check_lines(
    name: str, spec: TensorSpec, definition: Definition, places: dict[str, str], fits: Iterable[str]
) -> Iterator[str]:
    """Text that returns `unfit` unless the input is what `fits` says and its sizes agree. The variables that hold sizes
    are added to `places`, by axis."""
    if spec.shape is None:
        kinds = "(int, float)" if spec.dtype.is_float else "(bool,)" if spec.dtype.value == "bool" else "(int,)"
        yield f"    if {name}.__class__ not in {kinds}: return {OURS}unfit"
        return
    indent = "    "
    if spec.optional:
        yield f"    if {name} is not None:"
        indent = "        "
    yield f"{indent}if not ({' and '.join(fits)}): return {OURS}unfit"
    yield from _sizes(name, spec, definition, places, indent)


def _sizes(name: str, spec: TensorSpec, definition: Definition, places: dict[str, str], indent: str) -> Iterator[str]:
    """Unpacking a shape is the cheapest way to ask for rank and sizes at once; a wrong rank raises ValueError."""
    if not spec.shape:
        yield f"{indent}if {name}.dim() != 0: return {OURS}unfit"
        return
    if all(isinstance(definition.axes[axis], AxisConst) for axis in spec.shape):
        sizes = "".join(f"{definition.const_axes[axis]}, " for axis in spec.shape)
        yield f"{indent}if {name}.shape != ({sizes}): return {OURS}unfit"
        return
    targets, wrong = [], []
    for at, axis in enumerate(spec.shape):
        told = definition.axes[axis]
        target = f"{OURS}d{at}"
        if isinstance(told, AxisConst):
            wrong.append(f"{target} != {told.value}")
        elif axis in places:
            wrong.append(f"{target} != {places[axis]}")
        elif not spec.optional:
            target = places[axis] = f"{OURS}n{len(places)}"
        targets.append(target)
    yield f"{indent}{', '.join(targets)}, = {name}.shape"
    if wrong:
        yield f"{indent}if {' or '.join(wrong)}: return {OURS}unfit"


def _fits(name: str, device: str, spec: TensorSpec) -> Iterator[str]:
    yield f"{name}.__class__ in {OURS}plain"
    yield f"{name}.dtype is {OURS}{spec.dtype.value}"
    kind, _, index = device.partition(":")
    yield f"{name}.get_device() == {int(index)}" if index else f"{name}.is_{kind}"
    yield f"{name}.is_contiguous()"


def _grad(definition: Definition) -> Iterator[str]:
    floating = [n for n, spec in definition.inputs.items() if spec.shape is not None and spec.dtype.is_float]
    wanted = [
        f"({name} is not None and {name}.requires_grad)"
        if definition.inputs[name].optional
        else f"{name}.requires_grad"
        for name in floating
    ]
    if wanted:
        yield f"    if {OURS}grad() and ({' or '.join(wanted)}): return {OURS}unfit"


def size_of(feature: Feature, places: dict[str, str]) -> str:
    """An expression for it over the variables that hold the axes' sizes."""
    own = places.get(feature.axis)
    if own is None or (feature.over is not None and feature.over not in places):
        raise ApplyError(f"no input's shape tells {feature}, so no kernel can be chosen by it")
    return own if feature.over is None else f"{own} // ({places[feature.over]} or 1)"


def _into(definition: Definition, outputs: Sequence[str], places: dict[str, str], device: str) -> Iterator[str]:
    """Given outputs must fit too, and may lie in no input's memory."""
    for name in outputs:
        spec = definition.outputs[name]
        yield f"    if not ({' and '.join(_fits(name, device, spec))}): return {OURS}unfit"
        yield from _sizes(name, spec, definition, places, "    ")
        yield f"    {OURS}at = {name}.data_ptr(); {OURS}to = {OURS}at + {name}.nbytes"
        for other, given in definition.inputs.items():
            if given.shape is not None:
                begins = f"({OURS}in := {other}.data_ptr()) < {OURS}to"
                inside = f"{begins} and {OURS}in + {other}.nbytes > {OURS}at"
                yield f"    if {f'{other} is not None and ' if given.optional else ''}{inside}: return {OURS}unfit"


def _serve(form: str, arguments: str, own: Dispatcher, indent: str) -> Iterator[str]:
    yield f"{indent}{OURS}kernel = {OURS}{form}[{OURS}cell]"
    yield f"{indent}if {OURS}kernel is None: return {OURS}uncovered"
    if own.draws is not None:
        yield f"{indent}{OURS}drawn = next({OURS}draws[{OURS}cell])"
        yield f"{indent}if {OURS}drawn is not None: return {OURS}drawn"
    if own.counts:
        yield f"{indent}{OURS}calls[{OURS}cell] += 1"
    yield f"{indent}try: return {OURS}kernel({arguments})"
    yield f"{indent}except Exception as {OURS}error: return {OURS}failed({OURS}cell, {OURS}error)"
