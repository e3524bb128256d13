"""Strategies that have a model write: best_of_n, greedy, beam, evolve and episodic."""

from __future__ import annotations

import random
from collections.abc import Sequence

from kernelmill.agents.attempt import Attempt, Proposal
from kernelmill.agents.author import Author
from kernelmill.agents.experience import record
from kernelmill.agents.feedback import feedback
from kernelmill.agents.strategies.base import History

Cell = tuple[int, int]
RECENT = 6


class Writing:
    """What they share: a number of steps, and attempts as they come."""

    name = "writing"

    def __init__(self, author: Author, *, steps: int, seed: int = 0) -> None:
        self._author, self._steps, self._taken = author, steps, 0
        self._random = random.Random(seed)

    def observe(self, attempts: Sequence[Attempt]) -> None:
        return

    def done(self, history: History) -> bool:
        return self._taken >= self._steps

    def propose(self, history: History) -> Sequence[Proposal]:
        raise NotImplementedError

    def _improve(self, history: History, parent: Attempt | None, failed: Attempt | None = None) -> list[Proposal]:
        """One step: a kernel made from the parent, or from nothing."""
        self._taken += 1
        kind, recent = self._author.kind, history.attempts[-RECENT:]
        told = feedback(kind, incumbent=parent, failed=failed, recent=recent, rivals=history.attempts)
        parents = tuple(one.number for one in (parent, failed) if one is not None)
        made = self._author.write(history, told, parents)
        return [made] if made else []


class BestOfN(Writing):
    """Independent samples: none sees another."""

    name = "best_of_n"

    def propose(self, history: History) -> Sequence[Proposal]:
        self._taken += 1
        note = f"This is sample {self._taken} of {self._steps}."
        made = self._author.write(history, feedback(self._author.kind, note=note))
        return [made] if made else []


class Greedy(Writing):
    """Always from the best; a failure is mended `REPAIRS` times at most."""

    name = "greedy"
    REPAIRS = 2

    def __init__(self, author: Author, *, steps: int, seed: int = 0) -> None:
        super().__init__(author, steps=steps, seed=seed)
        self._failed: Attempt | None = None
        self._repairs = 0

    def propose(self, history: History) -> Sequence[Proposal]:
        return self._improve(history, history.best, self._failed)

    def observe(self, attempts: Sequence[Attempt]) -> None:
        failed = next((one for one in attempts if not one.outcome.passed), None)
        self._repairs = self._repairs + 1 if failed else 0
        self._failed = failed if self._repairs <= self.REPAIRS else None


class Beam(Writing):
    """The `WIDTH` best, each made into one more in turn."""

    name = "beam"
    WIDTH = 3

    def propose(self, history: History) -> Sequence[Proposal]:
        passed = [one for one in history.ranked() if one.outcome.passed]
        best = list({one.proposal.solution.hash(): one for one in reversed(passed)}.values())[::-1][: self.WIDTH]
        found: list[Proposal] = []
        parents: Sequence[Attempt | None] = best or [None]
        for parent in parents:
            if self._taken < self._steps:
                found += self._improve(history, parent)
        return found


class Evolve(Writing):
    """Islands of MAP-Elites: of each kind of kernel the best is kept, and now and then one moves on."""

    name = "evolve"
    ISLANDS = 3
    MIGRATION = 12
    """Steps between moves."""

    def __init__(self, author: Author, *, steps: int, seed: int = 0) -> None:
        super().__init__(author, steps=steps, seed=seed)
        self._islands: list[dict[Cell, Attempt]] = [{} for _ in range(self.ISLANDS)]

    def propose(self, history: History) -> Sequence[Proposal]:
        if self._taken and self._taken % self.MIGRATION == 0:
            self._migrate()
        members = list(self._island().values())
        if not members:
            return self._improve(history, None)
        best = max(members, key=lambda one: one.outcome.merit)
        parent = best if self._random.random() < 0.5 else self._random.choice(members)
        return self._improve(history, parent)

    def observe(self, attempts: Sequence[Attempt]) -> None:
        island = self._islands[(self._taken - 1) % self.ISLANDS]
        for one in attempts:
            if one.outcome.passed:
                self._settle(island, one)

    def _island(self) -> dict[Cell, Attempt]:
        return self._islands[self._taken % self.ISLANDS]

    def _migrate(self) -> None:
        best = [max(island.values(), key=lambda one: one.outcome.merit) if island else None for island in self._islands]
        for number, one in enumerate(best):
            if one is not None:
                self._settle(self._islands[(number + 1) % self.ISLANDS], one)

    @staticmethod
    def _settle(island: dict[Cell, Attempt], one: Attempt) -> None:
        cell = cell_of(one)
        if cell not in island or island[cell].outcome.merit < one.outcome.merit:
            island[cell] = one


def cell_of(attempt: Attempt) -> Cell:
    """The kind of kernel: how long it is, in doublings, and how many loops and branches it has, in doublings."""
    text = attempt.proposal.solution.files[attempt.proposal.solution.spec.entry_file]
    knots = sum(text.count(word) for word in ("for ", "for(", "while", "if ", "if("))
    return len(text).bit_length(), knots.bit_length()


class Episodic(Writing):
    """Episodes of a few trials; each starts from the task and what was learned, not from the talk before."""

    name = "episodic"
    TRIALS = 6

    def __init__(self, author: Author, *, steps: int, seed: int = 0) -> None:
        super().__init__(author, steps=steps, seed=seed)
        self._start = 0
        self._own: list[Attempt] = []

    def propose(self, history: History) -> Sequence[Proposal]:
        if self._taken % self.TRIALS == 0:
            self._start, self._own = len(history.attempts), []
            self._taken += 1
            learned = record(history.attempts)
            made = self._author.write(history, feedback(self._author.kind, learned=learned))
            return [made] if made else []
        passed = [one for one in self._own if one.outcome.passed]
        best = max(passed, key=lambda one: one.outcome.merit, default=None)
        last = self._own[-1] if self._own and not self._own[-1].outcome.passed else None
        self._taken += 1
        told = feedback(self._author.kind, incumbent=best, failed=last, recent=self._own[-RECENT:], rivals=self._own)
        parents = tuple(one.number for one in (best, last) if one is not None)
        made = self._author.write(history, told, parents)
        return [made] if made else []

    def observe(self, attempts: Sequence[Attempt]) -> None:
        self._own += attempts


WRITING = {each.name: each for each in (BestOfN, Greedy, Beam, Evolve, Episodic)}
