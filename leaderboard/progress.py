"""An author's way up: what each of their kernels added, in the order in which they were first judged.

A kernel counts as it is judged today. So the last step is where the author stands now, and a kernel that was barred
since has no step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, select

from kernelmill.evaluator.admission import moment
from kernelmill.evaluator.report.lines import ratio_line, read_ratio
from kernelmill.evaluator.statistics import ONE, mean_ratio
from kernelmill.leaderboard import ranking
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.ranking import Head, Kept


def steps(kept: Kept, connection: Connection, edition: int, heads: Sequence[Head], author: str) -> list[dict[str, Any]]:
    """`heads` are one device model's boards. A step is a kernel that became its author's best on a definition."""
    found: list[dict[str, Any]] = kept.get(
        (edition, tuple(heads), author), lambda: _steps(connection, edition, heads, author)
    )
    return found


def _steps(connection: Connection, edition: int, heads: Sequence[Head], author: str) -> list[dict[str, Any]]:
    number = select(t.Author.id).where(t.Author.name == author).scalar_subquery()
    attempted = set(connection.scalars(select(t.Solution.definition).where(t.Solution.author_id == number).distinct()))
    own = [head for head in heads if head.definition in attempted]
    entries = [
        (head.definition, entry)
        for head, entry in ranking.entries_with(connection, edition, own, author=author)
        if entry["rank"] is not None and not entry["is_baseline"]
    ]
    entries.sort(key=lambda found: (moment(found[1]["first_judged"] or ""), found[1]["solution"]))
    best = dict.fromkeys(ranking.listed(connection, edition), ONE)
    tried = set[str]()
    told = []
    for definition, entry in entries:
        speedup = read_ratio(entry["speedup"])
        if definition not in best or (definition in tried and speedup.lo <= best[definition].lo):
            continue
        tried.add(definition)
        best[definition] = speedup
        told.append(
            {
                "at": entry["first_judged"],
                "definition": definition,
                "solution": entry["solution"],
                "solution_hash": entry["solution_hash"],
                "speedup": entry["speedup"],
                "deployed": ratio_line(mean_ratio(list(best.values()))),
            }
        )
    return told
