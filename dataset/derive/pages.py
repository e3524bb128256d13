"""A KV page allocator as serving engines have one: a free list, reused last-freed-first, over a pool of fixed size.

Sequences that arrive, grow by a token a step and leave in any order get scattered, interleaved page ids from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field


class PoolExhausted(Exception):
    """Fewer free pages than asked for; nothing was allocated."""


@dataclass(slots=True)
class PagePool:
    """Page ids 0 .. `capacity` - 1, each holding `page_size` tokens and owned by at most one sequence."""

    capacity: int
    page_size: int = 1
    high_water: int = 0
    """Pages ever handed out: a cache of this many holds every sequence."""
    _freed: list[int] = field(default_factory=list)

    @property
    def free_pages(self) -> int:
        return self.capacity - self.high_water + len(self._freed)

    def pages_for(self, tokens: int) -> int:
        return -(-tokens // self.page_size)

    def allocate(self, count: int) -> list[int]:
        """`count` pages: the last freed ones first, then fresh ones in order."""
        if count > self.free_pages:
            raise PoolExhausted(f"{count} pages asked, {self.free_pages} of {self.capacity} free")
        reused = [self._freed.pop() for _ in range(min(count, len(self._freed)))]
        fresh = range(self.high_water, self.high_water + count - len(reused))
        self.high_water = max(self.high_water, fresh.stop)
        return [*reused, *fresh]

    def release(self, pages: list[int]) -> None:
        self._freed.extend(pages)


@dataclass(slots=True)
class Sequence:
    """A request's tokens in the pool; `pages[i]` holds tokens i * page_size and following."""

    pool: PagePool
    tokens: int = 0
    pages: list[int] = field(default_factory=list)

    def grow(self, tokens: int) -> None:
        """Appends `tokens` tokens; takes pages only when the last one is full."""
        missing = self.pool.pages_for(self.tokens + tokens) - len(self.pages)
        self.pages.extend(self.pool.allocate(missing))
        self.tokens += tokens

    def leave(self) -> None:
        self.pool.release(self.pages)
        self.pages, self.tokens = [], 0
