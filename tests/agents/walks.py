"""A strategy that walks over the toy landscape row by row: the simplest one there can be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from kernelmill.agents.attempt import Attempt, Proposal
from kernelmill.agents.strategies.base import History
from tests.agents import toy


class Walk:
    """Every place once, `width` at a time."""

    name = "walk"

    def __init__(self, width: int = 1) -> None:
        self._places: Iterator[tuple[int, int]] = iter([(x, y) for x in range(toy.SIZE) for y in range(toy.SIZE)])
        self._width = width
        self._ended = False

    def propose(self, history: History) -> Sequence[Proposal]:
        found = [toy.proposal(x, y) for x, y in islice(self._places, self._width)]
        self._ended = not found
        return found

    def observe(self, attempts: Sequence[Attempt]) -> None:
        return

    def done(self, history: History) -> bool:
        return self._ended
