"""How the judgements behind a board were made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from kernelmill.evaluator.admission import Judged, moment


@dataclass(frozen=True, slots=True)
class Conditions:
    """How the counted traces were made: sorted distinct values; times are the first and the last judgement's."""

    judge_versions: tuple[str, ...] = ()
    clocks: tuple[str, ...] = ()
    sandboxes: tuple[str, ...] = ()
    first_judged: str | None = None
    last_judged: str | None = None

    @classmethod
    def of(cls, counted: Sequence[Judged]) -> Self:
        times = [judged.evaluation.timestamp for judged in counted]
        return cls(
            judge_versions=_distinct(judged.subject.judge_version for judged in counted),
            clocks=_distinct(evidence.clock for judged in counted if (evidence := judged.evaluation.evidence)),
            sandboxes=_distinct(judged.evaluation.environment.sandbox for judged in counted),
            first_judged=min(times, key=_in_time, default=None),
            last_judged=max(times, key=_in_time, default=None),
        )

    @classmethod
    def merged(cls, parts: Sequence[Conditions]) -> Self:
        """What all of them were, in whatever order they come."""
        return cls(
            judge_versions=_distinct(version for part in parts for version in part.judge_versions),
            clocks=_distinct(clock for part in parts for clock in part.clocks),
            sandboxes=_distinct(sandbox for part in parts for sandbox in part.sandboxes),
            first_judged=min(_known(part.first_judged for part in parts), key=_in_time, default=None),
            last_judged=max(_known(part.last_judged for part in parts), key=_in_time, default=None),
        )

    def as_list(self) -> list[Any]:
        return [
            list(self.judge_versions),
            list(self.clocks),
            list(self.sandboxes),
            self.first_judged,
            self.last_judged,
        ]

    @classmethod
    def from_list(cls, values: Sequence[Any]) -> Self:
        judges, clocks, sandboxes, first, last = values
        return cls(tuple(judges), tuple(clocks), tuple(sandboxes), first, last)


def _in_time(timestamp: str) -> tuple[float, str]:
    """One moment spelled twice is in the order of its spellings, so that the order of traces means nothing."""
    return moment(timestamp), timestamp


def _known(timestamps: Iterable[str | None]) -> set[str]:
    return {timestamp for timestamp in timestamps if timestamp}


def _distinct(values: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted({value for value in values if value}))
