"""What a strategy is: it proposes, observes, and says when it is done. It judges nothing and spends nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kernelmill.agents.attempt import Attempt, Proposal
from kernelmill.agents.budget import Budget


@dataclass(slots=True)
class History:
    """All attempts of a run so far, and what is left to spend."""

    budget: Budget
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def best(self) -> Attempt | None:
        """The fastest that passed on every workload, however little it gains; None while nothing did.

        A merge counts only with a higher deployed speedup than each of its parents'.
        """
        passed = [one for one in self.attempts if one.outcome.passed and one.outcome.fidelity == "full"]
        passed = [one for one in passed if not one.proposal.merges or self._beats_parents(one)]
        return max(passed, key=lambda one: (one.outcome.lo > 1, one.outcome.gain), default=None)

    def _beats_parents(self, merge: Attempt) -> bool:
        parents = (self.attempts[number].outcome for number in merge.proposal.parents)
        return merge.outcome.improved and all(merge.outcome.speedup > one.speedup for one in parents)

    @property
    def improved(self) -> bool:
        return self.best is not None and self.best.outcome.improved

    def ranked(self) -> list[Attempt]:
        """The best first; of equals the earlier."""
        return sorted(self.attempts, key=lambda one: one.outcome.merit, reverse=True)


class Strategy(Protocol):
    """Deterministic: the same seed, answers and outcomes give the same proposals."""

    name: str

    def propose(self, history: History) -> Sequence[Proposal]:
        """What to judge next, together. Nothing means that this round brought nothing; `done` decides what follows."""

    def observe(self, attempts: Sequence[Attempt]) -> None:
        """What became of the last proposals: of fewer than were made where the budget ended."""

    def done(self, history: History) -> bool: ...
