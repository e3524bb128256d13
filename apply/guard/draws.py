"""Which calls are looked at: in every block of 1/share calls exactly one, at a place that nobody can foresee.

So of 2/share - 1 calls in a row at least one is looked at: a kernel that has gone wrong serves at most 2/share - 2
more.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain, repeat

from kernelmill.apply.missed import Missed


def draws(mark: Missed, share: float, first: int) -> Iterator[Missed | None]:
    """`mark` for the first calls and for one of each block, else None; endless. `share` 0 looks at the first only."""
    if share <= 0:
        return chain(repeat(mark, first), repeat(None))
    block = max(1, round(1 / share))
    return chain(repeat(mark, first), chain.from_iterable(_blocks(mark, block)))


def _blocks(mark: Missed, block: int) -> Iterator[Iterator[Missed | None]]:
    source = random.SystemRandom()
    while True:
        at = source.randrange(block)
        yield chain(repeat(None, at), repeat(mark, 1), repeat(None, block - at - 1))
