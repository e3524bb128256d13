"""The report as data: for each device model the boards of all definitions, its authors and what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import kernelmill
from kernelmill.evaluator.admission import Ignored, device_models
from kernelmill.evaluator.authors import AuthorScore, score_authors
from kernelmill.evaluator.conditions import Conditions
from kernelmill.evaluator.scoring import Score, score
from kernelmill.evaluator.statistics import Ratio, mean_ratio
from kernelmill.trace_schema import DatasetError, Definition, Solution, Trace, Workload


class Source(Protocol):
    """What a report reads: a Dataset, or anything that offers the same."""

    @property
    def definitions(self) -> Mapping[str, Definition]: ...
    def workloads(self, definition: Definition, /) -> Iterable[Workload]: ...
    def solutions(self, definition: Definition, /) -> Iterable[Solution]: ...
    def traces(self, definition: Definition, /) -> Iterable[Trace]: ...


@dataclass(frozen=True, slots=True)
class Board:
    """All definitions on one device model, judged or not: authors are ranked over the whole list."""

    device_model: str
    scores: tuple[Score, ...]
    authors: tuple[AuthorScore, ...]
    conditions: Conditions

    @property
    def judged(self) -> list[Score]:
        """The definitions with at least one solution judged."""
        return [each for each in self.scores if each.entries]

    @property
    def workloads(self) -> int:
        """How many workloads at least one solution was judged on."""
        return sum(len({uuid for entry in each.entries for uuid in entry.findings}) for each in self.scores)

    @property
    def solutions(self) -> int:
        """How many solutions were judged."""
        return sum(bool(entry.findings) for each in self.scores for entry in each.entries)

    @property
    def best_mix(self) -> Ratio:
        """Geometric mean over the judged definitions of what a deployment could install."""
        return mean_ratio([each.best_mix.speedup for each in self.judged])


@dataclass(frozen=True, slots=True)
class Report:
    """Every device model that was judged on, or the one asked for."""

    version: str
    made_at: str
    boards: tuple[Board, ...]
    ignored: Mapping[str, int]
    definitions: int


@dataclass(frozen=True, slots=True)
class _Material:
    definition: Definition
    workloads: Sequence[Workload]
    solutions: Mapping[str, Solution]
    traces: Sequence[Trace]


def build_report(dataset: Source, device_model: str | None = None, *, accept_unsandboxed: bool = False) -> Report:
    """Scores every definition of `dataset`; on every device model if none is named.

    Raises DatasetError if no trace was measured on the device model named.
    """
    materials = [_read(dataset, definition) for definition in dataset.definitions.values()]
    models = device_models(trace for material in materials for trace in material.traces)
    if device_model is not None and device_model not in models:
        raise DatasetError(
            f"no trace was measured on {device_model!r}; there are traces of: {', '.join(models) or 'none'}"
        )
    chosen = models if device_model is None else [device_model]
    boards = [_board(model, materials, accept_unsandboxed) for model in chosen]
    ignored = Counter[str]()
    for each in (each for board in boards for each in board.scores):
        ignored.update(each.ignored)
    if device_model is None:
        del ignored[Ignored.OTHER_DEVICE]  # each of those counts on its own model's board
    return Report(
        version=kernelmill.__version__,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        boards=tuple(board for board in boards if board.judged),
        ignored=dict(sorted(ignored.items())),
        definitions=len(materials),
    )


def _read(dataset: Source, definition: Definition) -> _Material:
    return _Material(
        definition,
        list(dataset.workloads(definition)),
        {solution.name: solution for solution in dataset.solutions(definition)},
        list(dataset.traces(definition)),
    )


def _board(device_model: str, materials: Sequence[_Material], accept_unsandboxed: bool) -> Board:
    scores = [
        score(
            material.definition,
            material.workloads,
            material.traces,
            device_model=device_model,
            solutions=material.solutions,
            accept_unsandboxed=accept_unsandboxed,
        )
        for material in materials
    ]
    conditions = Conditions.merged([each.conditions for each in scores])
    return Board(device_model, tuple(scores), tuple(score_authors(scores)), conditions)
