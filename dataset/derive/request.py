"""One call of a served model, as a trace records it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from kernelmill.dataset.derive.blocks import Key

Span = tuple[int, object]
"""Prompt tokens up to this one (excluded) have the content that this name stands for."""


@dataclass(frozen=True, slots=True)
class Request:
    """Lengths in tokens, times in seconds from the trace's start."""

    arrival_s: float
    prompt: int
    output: int
    prefix: tuple[Span, ...] = ()
    """What prompts may have in common, by rising end; tokens after the last span are this request's alone."""
    after: int | None = None
    """Position in the trace of the turn that comes before; `arrival_s` then counts from that one's last token."""

    def key(self, number: int, block: int, block_size: int) -> Key:
        """What the `block`-th block of request `number` holds; shared where it lies within one span of the prefix."""
        start, end = block * block_size, (block + 1) * block_size
        at = bisect_left(self.prefix, (end,))
        if at == len(self.prefix) or (at > 0 and start < self.prefix[at - 1][0]):
            return (number, block)
        return (self.prefix[at][1], block)
