"""Replays requests through a small model of a serving engine and yields every step it would run.

What is modelled: one replica; prompts first, in arrival order and in chunks, a step being either prefill or decode;
a KV pool in which a request is admitted once its whole length fits; pages from `pages.PagePool`.
What is not: prefix sharing, preemption, speculative tokens. Step times are a roofline of an 8B model in bfloat16 on a
card with 24 GB; they only decide how many requests pile up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from kernelmill.dataset.derive.pages import PagePool, Sequence
from kernelmill.dataset.derive.traffic import Request

WEIGHT_BYTES = 16.1e9
KV_BYTES_PER_TOKEN = 131_072
FLOPS_PER_TOKEN = 16.1e9
BANDWIDTH_BYTES_S = 0.7e12
COMPUTE_FLOPS = 0.8e14
OVERHEAD_S = 0.002


@dataclass(frozen=True, slots=True)
class Engine:
    """The replica's limits, in tokens."""

    pool_tokens: int = 24_576
    prefill_tokens: int = 512
    """Most prompt tokens in one prefill step."""
    context_tokens: int = 8_192
    """Longer requests are refused."""


@dataclass(slots=True)
class Active:
    """An admitted request and where its tokens are."""

    request: Request
    sequence: Sequence


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass. `new[i]` tokens of sequence i attend to `kv[i]` tokens, themselves included."""

    index: int
    start_s: float
    prefill: bool
    new: tuple[int, ...]
    kv: tuple[int, ...]
    sampled: int
    """Sequences that get a next token from this step."""
    high_water: int
    """Pages the pool had handed out so far."""
    active: tuple[Active, ...] = field(repr=False)
    """Live: read the page tables before asking for the next step."""

    @property
    def tokens(self) -> int:
        return sum(self.new)

    def duration_s(self) -> float:
        moved = WEIGHT_BYTES + KV_BYTES_PER_TOKEN * sum(self.kv)
        return OVERHEAD_S + max(moved / BANDWIDTH_BYTES_S, FLOPS_PER_TOKEN * self.tokens / COMPUTE_FLOPS)


def replay(requests: list[Request], engine: Engine) -> Iterator[Step]:
    """Every step until the last request has left, idle time skipped. The same input gives the same steps."""
    waiting = deque(request for request in requests if request.prompt + request.output <= engine.context_tokens)
    pool = PagePool(engine.pool_tokens)
    prompts: deque[Active] = deque()
    running: list[Active] = []
    now, index, reserved = 0.0, 0, 0
    while waiting or prompts or running:
        if not (prompts or running):
            now = max(now, waiting[0].arrival_s)
        while waiting and waiting[0].arrival_s <= now and reserved + _length(waiting[0]) <= engine.pool_tokens:
            reserved += _length(waiting[0])
            prompts.append(Active(waiting.popleft(), Sequence(pool)))
        step = _prefill(index, now, prompts, engine) if prompts else _decode(index, now, running)
        yield step
        now, index = now + step.duration_s(), index + 1
        running.extend(_finished_prompts(prompts))
        for active in [one for one in running if one.sequence.tokens >= _length(one.request)]:
            reserved -= _length(active.request)
            active.sequence.leave()
            running.remove(active)


def _length(request: Request) -> int:
    # The last token is sampled and never fed back, so it takes no place in the cache.
    return request.prompt + request.output - 1


def _prefill(index: int, now: float, prompts: deque[Active], engine: Engine) -> Step:
    left = engine.prefill_tokens
    chosen, new = [], []
    for active in prompts:
        chunk = min(left, active.request.prompt - active.sequence.tokens)
        if chunk == 0:
            break
        active.sequence.grow(chunk)
        chosen.append(active)
        new.append(chunk)
        left -= chunk
    sampled = sum(active.sequence.tokens == active.request.prompt for active in chosen)
    return _step(index, now, chosen, tuple(new), prefill=True, sampled=sampled)


def _decode(index: int, now: float, running: list[Active]) -> Step:
    for active in running:
        active.sequence.grow(1)
    return _step(index, now, running, (1,) * len(running), prefill=False, sampled=len(running))


def _step(index: int, now: float, chosen: list[Active], new: tuple[int, ...], *, prefill: bool, sampled: int) -> Step:
    kv = tuple(active.sequence.tokens for active in chosen)
    high_water = chosen[0].sequence.pool.high_water
    return Step(index, now, prefill, new, kv, sampled, high_water, tuple(chosen))


def _finished_prompts(prompts: deque[Active]) -> Iterator[Active]:
    while prompts and prompts[0].sequence.tokens >= prompts[0].request.prompt:
        yield prompts.popleft()
