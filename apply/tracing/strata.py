"""Calls counted by their sizes, in bounded memory: exactly while there are few sizes, then rounded more and more.

No lock is taken: a signal may interrupt a thread anywhere in here, and what it then waits for must not be waiting for
that thread. What several threads share is either one call into C (`next`, `get`, `setdefault`) or may be lost.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import count
from typing import Any

Key = tuple[int, ...]
_FINEST = 5
"""Significant bits that the first rounding keeps; each further one keeps one less, then logarithms are rounded."""


def rounded(key: Key, level: int) -> Key:
    """At level 0 the key itself; at some level, whatever the key, zeros."""
    if level == 0:
        return key
    bits = _FINEST + 1 - level
    if bits > 0:
        return tuple(size >> (drop := max(0, size.bit_length() - bits)) << drop for size in key)
    return tuple(size.bit_length() >> -bits for size in key)


class Entry:
    """The calls of one stratum, and a sample of them: after n calls each is among the kept ones with chance K/n."""

    __slots__ = ("_looks", "_threshold", "calls", "due", "samples")

    def __init__(self, keep: int) -> None:
        self.calls = count()
        """Each call takes its number, from 0."""
        self.due = 0
        """The next number that is to be kept."""
        self.samples: list[Any] = [None] * keep
        self._threshold = 1.0
        self._looks = 0

    def place(self, number: int) -> int:
        """Where the call of this number is kept. Decides which one is next, by skips that are drawn at once: Li's
        algorithm L, whose cost does not grow with the calls that are passed over."""
        keep = len(self.samples)
        if number < keep - 1:
            self.due = number + 1
            return number
        self._threshold *= math.exp(math.log(1 - random.random()) / keep)
        skipped = math.log(1 - random.random()) / math.log1p(-self._threshold) if self._threshold > 0 else math.inf
        self.due = number + 1 + int(min(skipped, 1e15))
        return number if number < keep else random.randrange(keep)

    def total(self) -> int:
        """How many calls there were. One thread at a time may ask: asking takes a number too."""
        self._looks += 1
        return next(self.calls) - (self._looks - 1)


class Strata:
    """The entries of one definition."""

    def __init__(self, most: int, keep: int) -> None:
        self.exact: dict[Key, Entry] = {}
        self._levels: list[dict[Key, Entry]] = [self.exact]
        self._most, self._keep = most, keep

    def find(self, key: Key) -> Entry:
        """The entry of these sizes, made where there is room, else that of the finest rounding that has room."""
        level = 0
        while True:
            entries, place = self._levels[level], rounded(key, level)
            entry = entries.get(place)
            if entry is not None:
                return entry
            is_last = level + 1 == len(self._levels)
            if is_last and (len(entries) < self._most or not any(place)):
                return entries.setdefault(place, Entry(self._keep))
            if is_last:
                self._levels.append({})
            level += 1

    def items(self) -> Iterator[tuple[Key, Entry]]:
        """Every entry and its sizes, exact or rounded."""
        for entries in list(self._levels):
            yield from list(entries.items())

    def clear(self) -> None:
        """Forgets all; `exact` stays the same dict."""
        del self._levels[1:]
        self.exact.clear()
