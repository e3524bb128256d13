"""One kernel's breaker: once tripped the kernel serves nothing more in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from kernelmill.apply.guard.events import Events

Cause = Literal["exception", "non_finite", "mismatch", "wrote_input", "memory", "form"]


class Breaker:
    """`take_out` empties the kernel's places in its dispatcher; the first cause is the one that is kept."""

    def __init__(self, definition: str, solution: str, solution_hash: str, events: Events) -> None:
        self.definition = definition
        self.solution = solution
        self.solution_hash = solution_hash
        self.cause: Cause | None = None
        self.detail = ""
        self.take_out: Callable[[], None] = _nothing
        self._events = events

    @property
    def is_tripped(self) -> bool:
        return self.cause is not None

    def trip(self, cause: Cause, detail: str) -> None:
        self.take_out()
        if self.cause is not None:
            return
        self.cause, self.detail = cause, detail[:500]
        self.note("withdrawn", self.detail, cause=cause)

    def note(self, event: str, detail: str, **facts: str) -> None:
        """Writes an event about this kernel."""
        self._events.write(
            event,
            definition=self.definition,
            solution=self.solution,
            solution_hash=self.solution_hash,
            detail=detail,
            **facts,
        )


def _nothing() -> None:
    return
