"""Authors over a whole list of definitions: who made how much of it faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

from kernelmill.evaluator.admission import moment
from kernelmill.evaluator.scoring import Entry, Score, place, ranks_of
from kernelmill.evaluator.statistics import ONE, Ratio, mean_ratio


@dataclass(frozen=True, slots=True)
class AuthorScore:
    """An author's best entries over a whole list of definitions; where there is none, 1: the baseline stays."""

    author: str
    speedup: Ratio
    improved: int
    attempted: int
    all: int
    first_judged: str | None
    best: Mapping[str, Entry]
    rank: int | None = None
    tied: bool = False

    @property
    def log_gain(self) -> float:
        """Mean natural log of the speedups: 0.69 is twice as fast throughout, or four times on half of the list."""
        return log(self.speedup.point)


def score_authors(scores: Sequence[Score]) -> list[AuthorScore]:
    """Ranks authors by the geometric mean of their best entries over all of `scores`, baselines left out."""
    names = {entry.author for each in scores for entry in each.entries if entry.author and not entry.is_baseline}
    authors = [_author(name, scores) for name in sorted(names)]
    ranks = ranks_of([author.speedup if author.best else None for author in authors])
    ranked = [replace(author, rank=rank, tied=tied) for author, (rank, tied) in zip(authors, ranks, strict=True)]
    return sorted(ranked, key=lambda author: (*place(author.rank), moment(author.first_judged or ""), author.author))


def _author(name: str, scores: Sequence[Score]) -> AuthorScore:
    own = {
        each.definition: entries
        for each in scores
        if (entries := [entry for entry in each.entries if entry.author == name and not entry.is_baseline])
    }
    best = {
        definition: max(ranked, key=lambda entry: entry.speedup.lo)
        for definition, entries in own.items()
        if (ranked := [entry for entry in entries if entry.rank is not None])
    }
    speedups = [best[each.definition].speedup if each.definition in best else ONE for each in scores]
    first = min((entry.first_judged or "" for entries in own.values() for entry in entries), key=moment, default=None)
    return AuthorScore(
        author=name,
        speedup=mean_ratio(speedups),
        improved=sum(speedup.lo > 1 for speedup in speedups),
        attempted=len(own),
        all=len(scores),
        first_judged=first,
        best=best,
    )
