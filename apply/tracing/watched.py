"""One definition under tracing: its strata, and what did not fit."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kernelmill.apply.calls import UNFIT
from kernelmill.apply.errors import ApplyError
from kernelmill.apply.tracing.probe import WRONG, Probe, make_probe
from kernelmill.apply.tracing.sample import Sample, copies, is_capturing, stored_of
from kernelmill.apply.tracing.settings import TracingSettings
from kernelmill.apply.tracing.strata import Entry, Key, Strata
from kernelmill.trace_schema import Definition, DType

SAMPLES = 4
"""Kept of a stratum whose tensors are stored: calls of the same sizes differ in the lengths that these hold."""
STORED_KEYS = 64
"""Sizes that are told apart where each of them holds tensors."""
LARGEST = 32
"""One call may take this part of the memory for stored tensors."""
REASONS = 16
"""Reasons that are told apart; the rest are counted as one."""
LOOKS = 64
"""Unfit calls that are looked at closely enough to say what differs."""
OTHERS = "other reasons"


@dataclass(slots=True)
class Memory:
    """What all definitions together hold in stored tensors, in bytes."""

    limit: int
    held: int = 0
    """Counted anew by the writer, for threads may lose some between them."""


class Watched:
    """Made when tracing is turned on; the probe when the definition is first called."""

    def __init__(
        self, definition: Definition, settings: TracingSettings, memory: Memory, started: Callable[[], None]
    ) -> None:
        self.definition = definition
        self.stored = stored_of(definition, settings.by_value)
        self._memory = memory
        keys = min(settings.keys, STORED_KEYS) if self.stored else settings.keys
        self.strata = Strata(keys, SAMPLES if self.stored else 1)
        self.unfit: Counter[str] = Counter()
        self._started = started
        self._looks = LOOKS
        self._probe: Probe | None = None
        self._names = tuple(definition.inputs)
        self._axes = tuple(definition.var_axes)
        self._counting = threading.Lock()
        self._here = threading.local()

    def within(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A part of a call that was counted: what it calls of the same definition in this thread is that call."""
        before = getattr(self._here, "seen", False)
        self._here.seen = True
        try:
            return function(*args, **kwargs)
        finally:
            self._here.seen = before

    def saw(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Counts a call and never raises for what it was given."""
        if getattr(self._here, "seen", False):
            return
        try:
            probe = self._probe or self._first()
            wrong = probe(*args, **kwargs)
        except UNFIT:
            wrong = WRONG
        if wrong is not None:
            self._refuse(wrong, {**dict(zip(self._names, args, strict=False)), **kwargs})

    def totals(self) -> list[tuple[Key, Entry, int]]:
        """Every stratum and its calls. Not for the threads that make the calls."""
        with self._counting:
            return [(key, entry, entry.total()) for key, entry in self.strata.items()]

    def samples(self) -> Iterator[Sample]:
        """Everything that is kept now."""
        for _, entry in self.strata.items():
            yield from (sample for sample in list(entry.samples) if sample is not None)

    def forget(self) -> None:
        """For a forked child, whose calls are its own."""
        self._counting = threading.Lock()
        self.strata.clear()
        self.unfit.clear()

    def _first(self) -> Probe:
        try:
            self._probe = make_probe(self.definition, self.strata, self._keep)
        except ApplyError as error:
            why = str(error)
            self._probe = lambda *_, **__: why
        return self._probe

    def _refuse(self, why: str, given: dict[str, Any]) -> None:
        """The first ones are told in full, which takes longer. Threads may lose a count between them."""
        if why is WRONG and self._looks > 0:
            self._looks -= 1
            why = difference(self.definition, given) or why
        if why not in self.unfit and len(self.unfit) >= REASONS:
            why = OTHERS
        self.unfit[why] += 1
        self._started()

    def _keep(self, entry: Entry, number: int, sizes: tuple[int, ...], inputs: tuple[Any, ...]) -> None:
        """In the caller's thread: what may change after the call is copied here, and nothing is waited for."""
        self._started()
        given = {name: value for name, value in zip(self._names, inputs, strict=True) if value is not None}
        specs = self.definition.inputs
        tensors = {name: given[name] for name in self.stored if name in given}
        if any(map(is_capturing, tensors.values())):
            entry.due = number + 1  # the next one, which may be a call outside of the graph
            return
        place = entry.place(number)
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        if size > self._memory.limit // LARGEST or self._memory.held + size > self._memory.limit:
            return
        try:
            copied, event = copies(tensors) if tensors else ({}, None)
        except RuntimeError:  # no memory left for it; the call counts all the same
            return
        axes = dict(zip(self._axes, sizes, strict=True))
        scalars = {name: value for name, value in given.items() if specs[name].shape is None}
        replaced = entry.samples[place]
        self._memory.held += size - (replaced.bytes if replaced is not None else 0)
        entry.samples[place] = Sample(axes, scalars, frozenset(specs) - frozenset(given), copied, size, event)


def difference(definition: Definition, given: dict[str, Any]) -> str | None:
    """The first input that is not what the definition says, as far as one alone can tell."""
    for name, spec in definition.inputs.items():
        value = given.get(name)
        if value is None and spec.optional:
            continue
        if value is None:
            return f"{name} is missing"
        if (spec.shape is not None) != hasattr(value, "dtype"):
            return f"{name} is a {type(value).__name__}, not a {'number' if spec.shape is None else 'tensor'}"
        if spec.shape is not None and (why := _mismatch(definition, spec.shape, spec.dtype, value)):
            return f"{name} {why}"
    return None


def _mismatch(definition: Definition, axes: list[str], dtype: DType, tensor: Any) -> str | None:
    if (found := str(tensor.dtype).removeprefix("torch.")) != dtype.value:
        return f"is {found}, not {dtype.value}"
    if tensor.dim() != len(axes):
        return f"has {tensor.dim()} axes, not {len(axes)}"
    for axis, size in zip(axes, tensor.shape, strict=True):
        if definition.const_axes.get(axis, size) != size:
            return f"has {size} as {axis}, not {definition.const_axes[axis]}"
    return None
