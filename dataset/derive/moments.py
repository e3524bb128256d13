"""Which steps of a replay become workloads: one out of each stratum, standing for all of its stratum's steps.

A replay is run twice, first to see how large its steps are, then to read the page tables of the chosen ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any

from kernelmill.dataset.derive.engine import Engine, Step, replay
from kernelmill.dataset.derive.pages import PagePool, Sequence
from kernelmill.dataset.derive.traffic import Capture, Request

REPLICAS = (3, 6, 12)
"""Load points: the trace is dealt round robin to this many replicas and the first one is replayed."""
ENGINE = Engine(pool_tokens=16_384)


@dataclass(frozen=True, slots=True)
class Moment:
    """A step that stands for `steps` steps. `new[i]` tokens of sequence i attend to `kv[i]`, itself in `tables[i]`."""

    new: tuple[int, ...]
    kv: tuple[int, ...]
    tables: tuple[tuple[int, ...], ...]
    num_pages: int
    sampled: int
    steps: float
    provenance: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Size:
    """What is remembered of a step in the first replay."""

    replicas: int
    index: int
    prefill: bool
    tokens: int
    kv: int
    work: int
    """Pairs of a query and a token that it sees."""
    sampled: int


def sizes(requests: list[Request]) -> list[Size]:
    """Every step of every load point."""
    return [_size(count, step) for count in REPLICAS for step in replay(requests[::count], ENGINE)]


def _size(replicas: int, step: Step) -> Size:
    work = sum(new * kv - new * (new - 1) // 2 for new, kv in zip(step.new, step.kv, strict=True))
    return Size(replicas, step.index, step.prefill, step.tokens, sum(step.kv), work, step.sampled)


def strata(population: Iterable[Size], key: Callable[[Size], int], count: int) -> list[tuple[Size, int]]:
    """The middle step of each of `count` equal parts of the population in order of `key`, and the part's size.

    Parts whose middles have the same key become one.
    """
    ordered = sorted(population, key=lambda size: (key(size), size.replicas, size.index))
    bounds = [len(ordered) * part // count for part in range(count + 1)]
    parts = [(ordered[(start + stop) // 2], stop - start) for start, stop in pairwise(bounds)]
    return [_merged(list(same)) for _, same in groupby(parts, key=lambda part: key(part[0]))]


def _merged(parts: list[tuple[Size, int]]) -> tuple[Size, int]:
    return parts[0][0], sum(steps for _, steps in parts)


def moments(requests: list[Request], chosen: list[tuple[Size, int]], trace: str) -> list[Moment]:
    """The chosen steps with their page tables, in the order given."""
    wanted = {(size.replicas, size.index) for size, _ in chosen}
    found = {}
    for count in REPLICAS:
        for step in replay(requests[::count], ENGINE):
            if (count, step.index) in wanted:
                found[count, step.index] = _moment(step, count, trace)
    return [replace(found[size.replicas, size.index], steps=steps) for size, steps in chosen]


def _moment(step: Step, replicas: int, trace: str) -> Moment:
    tables = tuple(tuple(active.sequence.pages) for active in step.active)
    provenance = {
        "kind": "request_trace",
        "trace": trace,
        "replicas": replicas,
        "phase": "prefill" if step.prefill else "decode",
        "step": step.index,
        "start_s": round(step.start_s, 3),
    }
    return Moment(step.new, step.kv, tables, step.high_water, step.sampled, 1, provenance)


def captured_moment(capture: Capture, shard: int, shards: int, steps: float) -> Moment:
    """Every `shards`-th sequence of a captured decode step, laid out as if all had decoded side by side until then."""
    lengths = capture.lengths[shard::shards]
    together = max(0, min(lengths) - 1)
    pool = PagePool(sum(lengths))
    sequences = [Sequence(pool) for _ in lengths]
    for sequence, length in zip(sequences, lengths, strict=True):
        sequence.grow(length - together)
    for _ in range(together):
        for sequence in sequences:
            sequence.grow(1)
    provenance = {
        "kind": "engine",
        "engine": "sglang",
        "model": "llama-3.1-8b",
        "capture": capture.name,
        "phase": "decode",
        "sequences": f"{shard}::{shards}",
    }
    tables = tuple(tuple(sequence.pages) for sequence in sequences)
    return Moment((1,) * len(lengths), lengths, tables, pool.high_water, len(lengths), steps, provenance)
