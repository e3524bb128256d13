"""What boards mean for whole models: coverage and gain of a model's modules on one kind of device.

Gain is time on the baselines divided by time with the best mixes. A call of a kernel takes the mean over its workloads'
calls, and is counted once a layer in each module that makes it. Kernels without a board have no time here: they are
left out of both sums and tell in the coverage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Connection, select

from kernelmill.dataset import catalogue
from kernelmill.dataset.catalogue import Model, Module
from kernelmill.evaluator.report.lines import read_ratio
from kernelmill.evaluator.selection import weighted_speedup
from kernelmill.evaluator.statistics import Ratio
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.errors import NotFound
from kernelmill.leaderboard.ranking import Head, Ranking

Summaries = Mapping[str, Mapping[str, Any]]
"""Of the boards of one kind of device, by definition."""


@dataclass(frozen=True, slots=True)
class Part:
    """A module, or a whole model: how many of its kernels have a board, and what those gain."""

    kernels: int
    covered: int
    gain: Ratio | None
    """None where nothing was timed."""


def find(id: str) -> Model:
    """The model of that id or alias. Raises NotFound."""
    try:
        return catalogue.model(id)
    except LookupError:
        raise NotFound(f"there is no model {id!r}") from None


def ranks_of(model: Model, wanted: str | None) -> int:
    """The wanted number of ranks if the dataset has definitions for it, else the model's first."""
    known = {str(number): number for number in model.tensor_parallel}
    return known.get(wanted or "", model.tensor_parallel[0])


@cache
def modules(model: str, ranks: int) -> tuple[Module, ...]:
    """In the order of a step."""
    return tuple(catalogue.modules(model, ranks))


@cache
def users() -> Mapping[str, tuple[tuple[str, str, int], ...]]:
    """By definition: id, name and number of ranks of each model that calls it."""
    found: dict[str, list[tuple[str, str, int]]] = {}
    for model in catalogue.models():
        for ranks in model.tensor_parallel:
            names = {name for module in modules(model.id, ranks) for name in module.definitions}
            for name in names:
                found.setdefault(name, []).append((model.id, model.name, ranks))
    return {name: tuple(rows) for name, rows in found.items()}


@cache
def calls(id: str) -> frozenset[str]:
    """Definitions that a model of the catalogue calls, on any number of ranks."""
    model = find(id)
    return frozenset(
        name for ranks in model.tensor_parallel for module in modules(model.id, ranks) for name in module.definitions
    )


def summaries(ranking: Ranking, connection: Connection, edition: int, heads: Sequence[Head]) -> Summaries:
    """Of heads of one kind of device."""
    found = ranking.summaries(connection, edition, heads)
    return {head.definition: summary for head, summary in zip(heads, found, strict=True)}


def measured(connection: Connection) -> frozenset[str]:
    """Names of the definitions that have a page."""
    return frozenset(connection.scalars(select(t.Definition.name).where(t.Definition.is_current)))


def part(of: Iterable[Module], boards: Summaries) -> Part:
    """Modules taken together."""
    calls = Counter[str]()
    for module in of:
        calls.update(dict.fromkeys(module.definitions, module.layers or 1))
    timed = {name: boards[name]["baseline_ms"] for name in calls if boards.get(name, {}).get("baseline_ms")}
    spent = {name: time_ms * calls[name] for name, time_ms in timed.items()}
    ratios = {name: read_ratio(boards[name]["best_mix"]["speedup"]) for name in timed}
    return Part(len(calls), sum(name in boards for name in calls), weighted_speedup(spent, ratios) if spent else None)
