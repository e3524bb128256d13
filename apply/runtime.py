"""What is in force: dispatchers made of chosen kernels, their breakers, and what they have counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernelmill.apply.dispatcher import Dispatcher
from kernelmill.apply.features import Feature
from kernelmill.apply.grid import Box, make_grid
from kernelmill.apply.guard.breaker import Breaker
from kernelmill.apply.guard.draws import draws
from kernelmill.apply.guard.events import Events
from kernelmill.apply.guard.trial import Trial
from kernelmill.apply.kernels import forms_of
from kernelmill.apply.missed import Missed
from kernelmill.trace_schema import Definition

if TYPE_CHECKING:
    from kernelmill.apply.tracing.tracer import Tracer


@dataclass(frozen=True, slots=True)
class Candidate:
    """A loaded kernel."""

    name: str
    solution_hash: str
    function: Callable[..., Any]
    destination_passing: bool = True


@dataclass(slots=True)
class Served:
    """One definition in force."""

    definition: Definition
    dispatcher: Dispatcher
    call: Callable[..., Any]
    breakers: list[Breaker]
    trials: list[Trial]
    looked_at: list[Missed]
    failed: Missed

    def calls(self) -> Iterator[tuple[Breaker, int, int]]:
        """Kernel, cell and how often it served there."""
        for cell, kernel in enumerate(self.dispatcher.grid.cells):
            if kernel is not None:
                yield self.breakers[kernel], cell, self.dispatcher.calls[cell]


@dataclass(frozen=True, slots=True)
class Looks:
    """How often calls are looked at."""

    share: float = 0.0
    first: int = 1
    counts: bool = True
    """Whether plain calls are counted by range."""


@dataclass(slots=True)
class Runtime:
    """Made once, when apply is enabled; changed by breakers alone."""

    device: str
    looks: Looks
    events: Events
    served: dict[str, Served] = field(default_factory=dict)
    shapes: Counter[tuple[str, tuple[int, ...]]] = field(default_factory=Counter)
    """What engine adapters have substituted, by op and shape."""
    tracer: Tracer | None = None
    """What records the calls, served or not."""

    @property
    def definitions(self) -> dict[str, Definition]:
        """What adapters are to look for. Those with kernels come last: of two that mean the same one is served."""
        traced = self.tracer.definitions if self.tracer else {}
        others = {name: one for name, one in traced.items() if name not in self.served}
        return others | {name: one.definition for name, one in self.served.items()}

    @property
    def dispatchers(self) -> dict[str, Callable[..., Any]]:
        served = {name: one.call for name, one in self.served.items()}
        return self.tracer.over(served) if self.tracer else served

    def serve(
        self,
        definition: Definition,
        features: tuple[Feature, ...],
        boxes: Sequence[Box],
        candidates: Sequence[Candidate],
    ) -> Served:
        """Raises ApplyError where no dispatcher can be made of the definition."""
        grid = make_grid(len(features), boxes)
        forms = [forms_of(definition, one.function, destination_passing=one.destination_passing) for one in candidates]
        breakers = [Breaker(definition.name, one.name, one.solution_hash, self.events) for one in candidates]
        trials = [Trial(definition, form.value, breaker) for form, breaker in zip(forms, breakers, strict=True)]
        marks = [Missed("looked at", trial) for trial in trials]
        failed = Missed("the kernel failed")

        def fail(cell: int, error: Exception) -> Missed:
            kernel = grid.cells[cell]
            if kernel is not None:
                breakers[kernel].trip("exception", f"{type(error).__name__}: {error}")
            return failed

        dispatcher = Dispatcher(
            definition,
            features,
            grid,
            value=[None if kernel is None else forms[kernel].value for kernel in grid.cells],
            into=[None if kernel is None else forms[kernel].into for kernel in grid.cells],
            failed=fail,
            counts=self.looks.counts,
        )
        self._look(dispatcher, marks)
        for kernel, breaker in enumerate(breakers):
            breaker.take_out = _taking_out(dispatcher, kernel)
        made = Served(definition, dispatcher, dispatcher.compile(self.device), breakers, trials, marks, failed)
        self.served[definition.name] = made
        return made

    def _look(self, dispatcher: Dispatcher, marks: Sequence[Missed]) -> None:
        """Where a share is drawn each call asks; first looks alone stand in the kernels' places until they are done."""
        cells = dispatcher.grid.cells
        if self.looks.share > 0:
            idle = Missed("nothing to look at")
            dispatcher.draws = [
                draws(idle if kernel is None else marks[kernel], self.looks.share, self.looks.first) for kernel in cells
            ]
        elif self.looks.first > 0:
            for cell, kernel in enumerate(cells):
                if kernel is not None:
                    first_looks(dispatcher, cell, marks[kernel], self.looks.first)


def first_looks(dispatcher: Dispatcher, cell: int, mark: Missed, times: int) -> None:
    """Puts in the kernel's place what asks for a look, and the kernel back after so many."""
    value, into = dispatcher.value[cell], dispatcher.into[cell]
    left = iter(range(times - 1))

    def look(*args: Any) -> Missed:
        dispatcher.calls[cell] -= dispatcher.counts  # it was no plain call
        if next(left, None) is None and dispatcher.value[cell] is look:
            dispatcher.value[cell], dispatcher.into[cell] = value, into
        return mark

    dispatcher.value[cell] = dispatcher.into[cell] = look


def _taking_out(dispatcher: Dispatcher, kernel: int) -> Callable[[], None]:
    def take_out() -> None:
        for cell, own in enumerate(dispatcher.grid.cells):
            if own == kernel:
                dispatcher.value[cell] = dispatcher.into[cell] = None

    return take_out
