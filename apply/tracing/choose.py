"""Which calls become workloads: as traffic is reduced, each standing for all calls of its stratum."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kernelmill.apply.features import features_of
from kernelmill.apply.tracing.judge import as_array
from kernelmill.apply.tracing.sample import Sample
from kernelmill.apply.tracing.strata import Entry, Key
from kernelmill.dataset.checks.indexed import LENGTHS
from kernelmill.dataset.checks.indptr import is_offsets
from kernelmill.dataset.derive import reduce
from kernelmill.trace_schema import Definition

NOTHING_KEPT = "no call of these sizes could be kept: its tensors are too large, or were seen in a graph's capture only"


class Stood(NamedTuple):
    """A sample that stands for so many calls."""

    sample: Sample
    calls: int


@dataclass(frozen=True, slots=True)
class Choice:
    """The calls of `stood` and of `refused` are all calls there were."""

    stood: list[Stood]
    refused: Counter[str]


def choose(definition: Definition, totals: Sequence[tuple[Key, Entry, int]], most: int) -> Choice:
    """At most `most` of the judged samples (more only where the extremes alone are more)."""
    rows, orphans, refused = list[Stood](), list[tuple[Key, int]](), Counter[str]()
    for key, entry, calls in totals:
        kept = [sample for sample in entry.samples if sample is not None and sample.is_judged]
        good = [sample for sample in kept if sample.fault is None]
        if good:
            rows += [Stood(one, share) for one, share in zip(good, shares(calls, len(good)), strict=True) if share]
        elif kept:
            refused[kept[0].fault or ""] += calls
        elif calls:
            orphans.append((key, calls))
    if not rows:
        refused[NOTHING_KEPT] += sum(calls for _, calls in orphans)
        return Choice([], +refused)
    table = [features(definition, row.sample) for row in rows]
    weights = [row.calls for row in rows]
    for key, calls in orphans:
        weights[_nearest(key, table)] += calls
    return Choice(_reduced(rows, table, weights, most), refused)


def shares(calls: int, parts: int) -> list[int]:
    """Whole numbers as equal as can be, whose sum is `calls`."""
    each, rest = divmod(calls, parts)
    return [each + (at < rest) for at in range(parts)]


def features(definition: Definition, sample: Sample) -> list[int]:
    """What its stratum was told by, then the longest of the sequences that each stored tensor tells of; 1 at least."""
    found = [feature.of(sample.axes) for feature in features_of(definition)]
    for name in sorted(sample.tensors):
        values = as_array(sample.tensors[name])
        if values is not None and values.ndim == 1 and (is_offsets(name) or name in LENGTHS):
            lengths = values[1:] - values[:-1] if is_offsets(name) else values
            found.append(int(lengths.max()) if lengths.size else 1)
    return [max(1, value) for value in found]


def _reduced(rows: Sequence[Stood], table: Sequence[Sequence[int]], weights: Sequence[int], most: int) -> list[Stood]:
    import numpy as np

    width = max(map(len, table))  # an optional tensor may be missing from some
    points: Any = np.array([[*row, *[1] * (width - len(row))] for row in table], dtype=np.int64)
    if not width:
        return [Stood(rows[0].sample, sum(weights))]
    picks = reduce.public(points, most, np.array(weights, dtype=np.int64))
    return [Stood(rows[pick.row].sample, pick.steps) for pick in picks]


def _nearest(key: Key, table: Sequence[Sequence[int]]) -> int:
    wanted = [math.log2(max(1, size)) for size in key]
    apart = [sum((math.log2(value) - log) ** 2 for value, log in zip(row, wanted, strict=False)) for row in table]
    return apart.index(min(apart))
