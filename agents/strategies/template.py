"""Search without a model: legality, a roofline's ranking, successive halving, then steps around the winner.

Two finalists that are best at different sizes are merged, and the merge is judged like any other candidate.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import fsum

from kernelmill.agents import merging
from kernelmill.agents.attempt import Attempt, Proposal
from kernelmill.agents.outcome import Fidelity
from kernelmill.agents.strategies.base import History
from kernelmill.agents.templates.space import Hardware, Space, Value
from kernelmill.trace_schema import Workload

FIRST = 8
"""Candidates of the first round, from each space."""
KEPT = 3
"""Of which so many are moved around."""
MOVES = 4
"""Neighbours tried in a round of moves."""
MOVE_ROUNDS = 2
FINALISTS = 2
"""Judged on every workload."""
FULL_ROUNDS = 2.0
"""Judging the finalists in full is reckoned at so many rounds."""
PATIENCE_S = 285.0
"""Rounds are planned so that the search ends within this time, even where no budget asks for it."""
TOLD = 1.02
"""A gain by less than this is noise of a quick judgement, and ends the moves."""


@dataclass(frozen=True, slots=True)
class Point:
    """One candidate of one space."""

    space: Space
    params: Mapping[str, Value]

    @property
    def identity(self) -> str:
        return self.space.identity(self.params)


class Template:
    """Deterministic by seed. `excluded`: identities, as `kernelmill agent space` lists them, that are not tried."""

    name = "template"

    def __init__(
        self,
        spaces: Sequence[Space],
        workloads: Sequence[Workload],
        hardware: Hardware,
        *,
        seed: int = 0,
        excluded: Iterable[str] = (),
    ) -> None:
        self._random = random.Random(seed)
        self._excluded = frozenset(excluded)
        self._points: dict[str, Point] = {}
        self._definition = spaces[0].definition
        self._workloads, self._hardware = workloads, hardware
        self._queue = self._first(spaces)
        self._moves = 0
        self._final = self._done = False
        self._merge: merging.Merge | None = None
        self._best_gain = 0.0

    def propose(self, history: History) -> Sequence[Proposal]:
        if self._merge is not None:
            return self._merged(self._merge, history)
        if self._final or self._must_land(history):
            self._final = True
            chosen = self._finalists(history)
            self._done = not chosen or self._done
            return [self._proposal(point, history, "full") for point in chosen]
        if history.budget.left("evaluations") < 2:  # there is one judgement, or none
            self._final = True
            return [self._proposal(self._queue[0], history, "full")]
        room = min(len(self._queue), history.budget.left("evaluations") - 1)
        return [self._proposal(point, history, "quick") for point in self._queue[: int(room)]]

    def observe(self, attempts: Sequence[Attempt]) -> None:
        if self._final:
            self._merge = None if self._done or self._merge else self._planned(attempts)
            self._done = self._merge is None
            return
        found = sorted(attempts, key=lambda one: one.outcome.merit, reverse=True)
        passed = [one for one in found if one.outcome.passed]
        gain = max((one.outcome.gain for one in passed), default=0.0)
        better, self._best_gain = gain > TOLD * self._best_gain, max(gain, self._best_gain)
        if not passed or self._moves == MOVE_ROUNDS or not better:
            self._final = True
            return
        self._moves += 1
        self._queue = self._around([self._points[self._named(one)] for one in passed[:KEPT]])
        self._final = not self._queue

    def done(self, history: History) -> bool:
        return self._done or not (self._queue or self._final)

    def _first(self, spaces: Sequence[Space]) -> list[Point]:
        """The best by estimate, from each space in turn; half of the round by lot, since estimates err."""
        ranked = []
        for space in spaces:
            points = [Point(space, params) for params in space.points()]
            points = [point for point in points if point.identity not in self._excluded]
            self._random.shuffle(points)  # the order of equal estimates
            ranked.append(sorted(points, key=self._estimate))
        rows = []
        for points in ranked:
            sure, rest = points[: FIRST // 2], points[FIRST // 2 :]
            rows.append(sure + self._random.sample(rest, min(len(rest), FIRST - len(sure))))
        turns = zip_longest(*rows)  # a small budget cuts the round, and no space shall go without
        chosen = [point for turn in turns for point in turn if point is not None]
        self._points |= {point.identity: point for point in chosen}
        return chosen

    def _estimate(self, point: Point) -> float:
        sizes = point.space.definition.resolve_axes
        weighted = [
            (one.weight or 1.0) * point.space.cost(sizes(one.axes), point.params, self._hardware)
            for one in self._workloads
        ]
        return fsum(weighted)

    def _around(self, centres: Sequence[Point]) -> list[Point]:
        """Untried neighbours of the winner, filled up with the runners-up's."""
        found: dict[str, Point] = {}
        for centre in centres:
            near = [Point(centre.space, params) for params in centre.space.neighbours(centre.params)]
            self._random.shuffle(near)
            for point in near:
                if point.identity not in self._points and point.identity not in self._excluded:
                    found.setdefault(point.identity, point)
        chosen = dict(list(found.items())[:MOVES])
        self._points |= chosen
        return list(chosen.values())

    def _finalists(self, history: History) -> list[Point]:
        ranked = [one for one in history.ranked() if one.outcome.passed and one.outcome.fidelity == "quick"]
        late = history.budget.used["wall_s"] > PATIENCE_S / 2
        room = min(1 if late else FINALISTS, history.budget.left("evaluations"))
        pairs = ((self._planned((ranked[0], other)), other) for other in ranked[1:])
        merges = [(merge.gain, -other.number, other) for merge, other in pairs if merge]
        if merges:  # whoever is good where the best is not
            ranked = [ranked[0], max(merges)[2]]
        return [self._points[self._named(one)] for one in ranked[: int(room)]]

    def _planned(self, attempts: Sequence[Attempt]) -> merging.Merge | None:
        return merging.planned(self._definition, self._workloads, attempts)

    def _merged(self, merge: merging.Merge, history: History) -> list[Proposal]:
        """Nothing where too little is left for judging it as its parents were."""
        need_s = fsum(one.outcome.device_s for one in merge.specialists)
        left_s = min(history.budget.left("wall_s"), history.budget.left("device_s"), self._patience_left_s(history))
        if history.budget.left("evaluations") < 1 or left_s < need_s:
            self._done = True
            return []
        solution = merging.merged(self._definition, merge)
        parents = tuple(one.number for one in merge.specialists)
        return [Proposal(solution, solution.name, parents, "full", merges=True)]

    @staticmethod
    def _patience_left_s(history: History) -> float:
        return PATIENCE_S - history.budget.used["wall_s"]

    def _must_land(self, history: History) -> bool:
        """Whether another round would leave too little for judging the finalists in full."""
        budget, judged = history.budget, history.attempts
        if not any(one.outcome.passed for one in judged):
            return False
        if budget.left("evaluations") < len(self._queue) + 1:
            return True
        last = judged[-1].event
        round_s = fsum(one.outcome.device_s for one in judged if one.event == last)
        left_s = min(budget.left("wall_s"), budget.left("device_s"), self._patience_left_s(history))
        return left_s < (1 + FULL_ROUNDS) * round_s

    def _proposal(self, point: Point, history: History, fidelity: Fidelity) -> Proposal:
        solution = point.space.render(point.params)
        parents = [one.number for one in history.attempts if one.proposal.solution.name == solution.name]
        return Proposal(solution, point.identity, tuple(parents[:1]), fidelity, dict(point.params))

    @staticmethod
    def _named(attempt: Attempt) -> str:
        return attempt.proposal.idea
