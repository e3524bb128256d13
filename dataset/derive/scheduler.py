"""Which tokens of which request a step computes: the rules of vLLM V1's scheduler, first come first served.

There is no prefill and no decode phase. A request has tokens that are known and tokens that are computed; a step gives
each the rest, within one budget of tokens. Running requests come first, then waiting ones. Where blocks run out, the
request that was admitted last loses its blocks and waits, first in line, to be computed again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from kernelmill.dataset.derive.blocks import BlockPool
from kernelmill.dataset.derive.request import Request


@dataclass(slots=True, eq=False)
class Served:
    """A request on its way through the engine."""

    request: Request
    number: int
    known: int
    """Tokens of the prompt and those sampled so far."""
    computed: int = 0
    blocks: list[int] = field(default_factory=list)
    named: int = 0
    """Leading blocks whose content the pool knows."""
    admission: int = -1
    """Which admission of the replay this is; a preempted request gets a new one."""

    @property
    def finished(self) -> bool:
        return self.known >= self.request.prompt + self.request.output


@dataclass(frozen=True, slots=True)
class Limits:
    """What one step and one replica may hold."""

    step_tokens: int = 8192
    requests: int = 1024
    context_tokens: int = 1 << 20
    """Longer requests are refused."""
    whole_prompt_must_fit: bool = True
    """Admit only where blocks for all known tokens are free, not just those of the first chunk."""


Scheduled = list[tuple[Served, int]]
"""Requests of one step and the new tokens of each."""


class Scheduler:
    """`step` chooses and allocates; `complete` moves on what was chosen."""

    def __init__(self, pool: BlockPool, limits: Limits) -> None:
        self.pool, self.limits = pool, limits
        self.waiting: deque[Served] = deque()
        self.running: list[Served] = []
        self.preempted: list[tuple[Served, list[int]]] = []
        """Of the last step: who lost which blocks."""
        self.admitted: list[Served] = []
        """Of the last step."""

    def add(self, number: int, request: Request) -> bool:
        """Whether the request can ever be served here."""
        length = request.prompt + request.output
        if length > self.limits.context_tokens or self.pool.blocks_for(length) > self.pool.capacity:
            return False
        self.waiting.append(Served(request, number, request.prompt))
        return True

    def step(self) -> Scheduled:
        """What the next forward pass computes; empty only where nothing waits and nothing runs."""
        self.preempted, self.admitted = [], []
        chosen = self._continue()
        if not self.preempted:
            chosen += self._admit(self.limits.step_tokens - sum(new for _, new in chosen))
        return chosen

    def _continue(self) -> Scheduled:
        left, chosen, at = self.limits.step_tokens, [], 0
        while at < len(self.running) and left > 0:
            served = self.running[at]
            new = min(served.known - served.computed, left)
            if not self._room(served, new):
                break
            chosen.append((served, new))
            left -= new
            at += 1
        return chosen

    def _room(self, served: Served, new: int) -> bool:
        """Blocks for `new` more tokens, at the cost of whoever came last; False if that was `served` itself."""
        wanted = self.pool.blocks_for(served.computed + new) - len(served.blocks)
        if wanted <= 0:
            return True
        while wanted > self.pool.free_blocks:
            victim = self.running.pop()
            self._preempt(victim)
            if victim is served:
                return False
        served.blocks += self.pool.allocate(wanted)
        return True

    def _preempt(self, victim: Served) -> None:
        self.preempted.append((victim, victim.blocks))
        self.pool.release(victim.blocks)
        victim.blocks, victim.computed, victim.named = [], 0, 0
        self.waiting.appendleft(victim)

    def _admit(self, left: int) -> Scheduled:
        chosen: Scheduled = []
        while self.waiting and left > 0 and len(self.running) < self.limits.requests:
            served = self.waiting[0]
            cached = self.pool.find(self._keys(served, (served.known - 1) // self.pool.block_size))
            hit = len(cached) * self.pool.block_size
            new = min(served.known - hit, left)
            reach = served.known if self.limits.whole_prompt_must_fit else hit + new
            if self.pool.blocks_for(reach) - len(cached) > self.pool.free_blocks - self.pool.idle(cached):
                break
            self.waiting.popleft()
            self.pool.share(cached)
            served.blocks = cached + self.pool.allocate(self.pool.blocks_for(hit + new) - len(cached))
            served.computed, served.named = hit, len(cached)
            self.running.append(served)
            self.admitted.append(served)
            chosen.append((served, new))
            left -= new
        return chosen

    def _keys(self, served: Served, count: int) -> Iterator[tuple[object, int]]:
        """Of the first `count` blocks. One token at least is always computed, so that there is something to sample."""
        return (served.request.key(served.number, block, self.pool.block_size) for block in range(count))

    def complete(self, chosen: Scheduled) -> list[Served]:
        """The step has run: those whose known tokens are all computed sample one more. Returns who is done."""
        done = []
        size = self.pool.block_size
        for served, new in chosen:
            served.computed += new
            full = served.computed // size
            while served.named < full:
                at = served.named
                self.pool.name(served.blocks[at], served.request.key(served.number, at, size))
                served.named += 1
            if served.computed == served.known:
                served.known += 1
                if served.finished:
                    done.append(served)
        for served in done:
            self.pool.release(served.blocks)
            self.running.remove(served)
        return done
