"""What a run has learned, in few bytes: ideas that gained, and dead ends with what became of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from kernelmill.agents.attempt import Attempt, result
from kernelmill.agents.outcome import Frozen, Gate

MAX_BYTES = 4000
MAX_IDEA_CHARS = 160


class Lesson(Frozen):
    """One idea and the evidence for or against it."""

    idea: str
    polarity: Literal["gain", "dead end"]
    evidence: str


def lessons(attempts: Sequence[Attempt]) -> list[Lesson]:
    """The best first, then the dead ends, the latest first; one for each idea."""
    found: dict[str, Lesson] = {}
    for one in sorted(attempts, key=lambda one: one.outcome.merit, reverse=True):
        if one.outcome.passed and one.outcome.gain > 1:
            _keep(found, one, "gain")
    for one in reversed(attempts):
        if one.outcome.gate is not Gate.UNJUDGED and not (one.outcome.passed and one.outcome.gain > 1):
            _keep(found, one, "dead end")
    return list(found.values())


def _keep(found: dict[str, Lesson], one: Attempt, polarity: Literal["gain", "dead end"]) -> None:
    idea = (one.proposal.idea or one.proposal.solution.name)[:MAX_IDEA_CHARS]
    found.setdefault(idea, Lesson(idea=idea, polarity=polarity, evidence=result(one.outcome)[:MAX_IDEA_CHARS]))


def record(attempts: Sequence[Attempt], limit: int = MAX_BYTES) -> list[Lesson]:
    """As many lessons as fit, gains before dead ends, in JSON of at most `limit` bytes."""
    kept: list[Lesson] = []
    for lesson in lessons(attempts):
        if len(dumped([*kept, lesson]).encode()) > limit:
            break
        kept.append(lesson)
    return kept


def dumped(kept: Sequence[Lesson]) -> str:
    return json.dumps([lesson.model_dump() for lesson in kept], indent=1) + "\n"
