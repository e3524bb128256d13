"""Candidates, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kernelmill.agents.outcome import Fidelity, Gate, Outcome
from kernelmill.trace_schema import Solution


@dataclass(frozen=True, slots=True)
class Proposal:
    """A solution to be judged."""

    solution: Solution
    idea: str = ""
    """In one line, what is new in it."""
    parents: tuple[int, ...] = ()
    """Numbers of the attempts that it was made from."""
    fidelity: Fidelity = "full"
    params: dict[str, Any] = field(default_factory=dict)
    """A template's choices."""
    merges: bool = False
    """Whether it calls its parents, each where it is best: then it must beat every one of them."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A proposal and its outcome; numbers count from 0 in order of judgement."""

    number: int
    proposal: Proposal
    outcome: Outcome
    event: int
    """The step of the journal that it was judged in."""

    @property
    def line(self) -> str:
        """Idea and result, for a prompt or a person."""
        idea = self.proposal.idea or self.proposal.solution.name
        return f"#{self.number} {idea[:120]}: {result(self.outcome)}"


def result(outcome: Outcome) -> str:
    if outcome.gate is Gate.PASSED or outcome.gate is Gate.SLOWER:
        return f"{outcome.gate.value} {outcome.gain:.3g}x of the baseline's speed ({outcome.fidelity})"
    return f"{outcome.gate.value}: {outcome.cause[:160]}"
