"""Authors over a whole list of definitions: who made how much of it faster. Languages are compared the same way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import fmean
from typing import Literal

from pydantic_core import from_json

from kernelmill.evaluator.admission import moment
from kernelmill.evaluator.scoring import Entry, Score, place, ranks_of
from kernelmill.evaluator.statistics import ONE, Ratio, mean_ratio

By = Literal["author", "language"]
WIN_AT = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0)
"""A definition is won at p where the best entry is surely more than p times as fast as the baseline."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What one author has on one board: the best entry, `solution` None where none has a rank.

    `pass_rate` is that entry's: PASSED workloads among all.
    """

    first_judged: str
    solution: str | None = None
    solution_hash: str | None = None
    speedup: Ratio = ONE
    pass_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class AuthorScore:
    """An author's best entries over a whole list of definitions; where there is none, 1: the baseline stays.

    `author` is a language where the standings are languages'. `pass_rate` is the mean over what was attempted, `wins`
    how many definitions are won at each of WIN_AT.
    """

    author: str
    speedup: Ratio
    improved: int
    attempted: int
    all: int
    pass_rate: float
    wins: Mapping[float, int]
    first_judged: str | None
    best: Mapping[str, Standing]
    rank: int | None = None
    tied: bool = False

    @property
    def log_gain(self) -> float:
        """Mean natural log of the speedups: 0.69 is twice as fast throughout, or four times on half of the list."""
        return log(self.speedup.point)


def score_authors(scores: Sequence[Score], by: By = "author") -> list[AuthorScore]:
    """Ranks authors by the geometric mean of their best entries over all of `scores`, baselines left out."""
    return rank_authors({each.definition: standings(each, by) for each in scores})


def standings(score: Score, by: By = "author") -> dict[str, Standing]:
    """Who attempted one definition and how far they got, baselines left out."""
    own: dict[str, list[Entry]] = {}
    for entry in score.entries:
        name = entry.author if by == "author" else entry.language
        if name and not entry.is_baseline:
            own.setdefault(name, []).append(entry)
    return {name: _standing(entries) for name, entries in own.items()}


def rank_authors(boards: Mapping[str, Mapping[str, Standing]]) -> list[AuthorScore]:
    """`boards` has the standings of every definition on the list, by its name: empty where nobody attempted it."""
    names = {name for standings in boards.values() for name in standings}
    authors = [_author(name, boards) for name in sorted(names)]
    ranks = ranks_of([author.speedup if author.best else None for author in authors])
    ranked = [replace(author, rank=rank, tied=tied) for author, (rank, tied) in zip(authors, ranks, strict=True)]
    return sorted(ranked, key=lambda author: (*place(author.rank), moment(author.first_judged or ""), author.author))


def dump_standings(standings: Mapping[str, Standing]) -> str:
    """One compact line of standard JSON."""
    values = {
        name: [each.first_judged, each.solution, each.solution_hash, each.speedup.as_list(), each.pass_rate]
        for name, each in standings.items()
    }
    return json.dumps(values, allow_nan=False, separators=(",", ":"))


def load_standings(text: str) -> dict[str, Standing]:
    return {
        name: Standing(first_judged, solution, source, Ratio.from_list(speedup), pass_rate)
        for name, (first_judged, solution, source, speedup, pass_rate) in from_json(text).items()
    }


def _standing(entries: Sequence[Entry]) -> Standing:
    first = min((entry.first_judged or "" for entry in entries), key=moment)
    ranked = [entry for entry in entries if entry.rank is not None]
    if not ranked:
        return Standing(first)
    best = max(ranked, key=lambda entry: entry.speedup.lo)
    return Standing(first, best.solution, best.solution_hash, best.speedup, best.pass_rate or 0.0)


def _author(name: str, boards: Mapping[str, Mapping[str, Standing]]) -> AuthorScore:
    own = {definition: standings[name] for definition, standings in boards.items() if name in standings}
    best = {definition: standing for definition, standing in own.items() if standing.solution is not None}
    speedups = [best[definition].speedup if definition in best else ONE for definition in boards]
    return AuthorScore(
        author=name,
        speedup=mean_ratio(speedups),
        improved=sum(speedup.lo > 1 for speedup in speedups),
        attempted=len(own),
        all=len(boards),
        pass_rate=fmean([standing.pass_rate for standing in own.values()]) if own else 0.0,
        wins={p: sum(speedup.lo > p for speedup in speedups) for p in WIN_AT},
        first_judged=min((standing.first_judged for standing in own.values()), key=moment, default=None),
        best=best,
    )
