"""A run: strategy and judge take turns until the strategy is done or a budget is spent. All of it is in the journal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from kernelmill.agents.attempt import Attempt, Proposal
from kernelmill.agents.budget import Exhausted
from kernelmill.agents.journal import Journal
from kernelmill.agents.outcome import Fidelity, Outcome
from kernelmill.agents.strategies.base import History, Strategy
from kernelmill.trace_schema import Solution

IDLE_ROUNDS = 20
"""A strategy that brings nothing for so many rounds has ended, whatever it says."""
Tell = Callable[[str], None]


class Judge(Protocol):
    """Whoever says what a candidate is worth."""

    def judge(self, solutions: Sequence[Solution], fidelity: Fidelity, deadline_s: float) -> list[Outcome]:
        """One outcome a solution, in order; none that starts after `deadline_s` seconds from now."""


class Result(NamedTuple):
    """How a run ended. `exhausted` names the budget that ended it, "" where the strategy was done."""

    best: Attempt | None
    improved: bool
    exhausted: str
    attempts: Sequence[Attempt]
    used: dict[str, float]


def run(strategy: Strategy, judge: Judge, journal: Journal, history: History, tell: Tell = lambda text: None) -> Result:
    """Raises InternalError and DatasetError of the judge; the run can then be taken up again."""
    exhausted, idle = "", 0
    try:
        while idle < IDLE_ROUNDS and not strategy.done(history):
            history.budget.sync(wall_s=journal.elapsed_s)
            history.budget.check(wall_s=0.0 if history.budget.left("wall_s") else 1e-9)
            proposals = strategy.propose(history)
            idle = 0 if proposals else idle + 1
            if proposals:
                strategy.observe(judged(proposals, judge, journal, history, tell))
    except Exhausted as error:
        exhausted = error.limit
        tell(str(error))
    history.budget.sync(wall_s=journal.elapsed_s)
    used = {name: round(amount, 6) for name, amount in history.budget.used.items()}
    best = history.best
    result = Result(best, history.improved, exhausted, history.attempts, used)
    journal.perform("end", summary(result), dict)
    return result


def summary(result: Result) -> dict[str, Any]:
    """What there is to say of a run in one JSON object."""
    best = result.best
    return {
        "improved": result.improved,
        "exhausted": result.exhausted,
        "attempts": len(result.attempts),
        "best": best and best.number,
        "solution": best and best.proposal.solution.name,
        "solution_hash": best and best.proposal.solution.hash(),
        "speedup": best and best.outcome.speedup,
        "interval": best and [best.outcome.lo, best.outcome.hi],
        "gain": best and best.outcome.gain,
        "passed": best and best.outcome.judged,
        "used": result.used,
    }


def judged(
    proposals: Sequence[Proposal],
    judge: Judge,
    journal: Journal,
    history: History,
    tell: Tell = lambda text: None,
) -> list[Attempt]:
    """Judges what the budget allows; what was judged before at the same fidelity is not judged, or paid for, again.

    Raises Exhausted once what fits is judged and something is left.
    """
    known = {key(one.proposal): one for one in history.attempts}
    found: list[Attempt] = []
    fresh: list[Proposal] = []
    for proposal in proposals:
        if key(proposal) in known:
            found.append(known[key(proposal)])
        elif key(proposal) not in {key(other) for other in fresh}:
            fresh.append(proposal)
    for fidelity in dict.fromkeys(proposal.fidelity for proposal in fresh):
        batch = [proposal for proposal in fresh if proposal.fidelity == fidelity]
        worst = worst_s(history, fidelity)
        room = min(history.budget.left("evaluations"), history.budget.left("device_s") / worst if worst else len(batch))
        taken = batch if room >= len(batch) else batch[: int(room)]
        found += _batch(taken, fidelity, judge, journal, history, tell) if taken else []
        if len(taken) < len(batch):
            history.budget.check(evaluations=1, device_s=worst)
    return found


def worst_s(history: History, fidelity: Fidelity) -> float:
    """What a judgement took at most so far: so much is reserved for the next one."""
    return max((one.outcome.device_s for one in history.attempts if one.outcome.fidelity == fidelity), default=0.0)


def key(proposal: Proposal) -> tuple[str, Fidelity]:
    return proposal.solution.hash(), proposal.fidelity


def _batch(
    batch: Sequence[Proposal], fidelity: Fidelity, judge: Judge, journal: Journal, history: History, tell: Tell
) -> list[Attempt]:
    for proposal in batch:
        journal.keep(proposal.solution)
    budget = history.budget
    left_s = min(budget.left("device_s"), budget.left("wall_s"))

    def work() -> dict[str, Any]:
        outcomes = judge.judge([proposal.solution for proposal in batch], fidelity, left_s)
        return {"outcomes": [outcome.model_dump(mode="json") for outcome in outcomes]}

    asked = {"fidelity": fidelity, "candidates": [_described(proposal) for proposal in batch]}
    with budget.reserved(evaluations=len(batch), device_s=len(batch) * worst_s(history, fidelity)) as spent:
        parents = sorted({history.attempts[number].event for one in batch for number in one.parents})
        event = journal.perform("judge", asked, work, parents)
        outcomes = [Outcome.model_validate(raw) for raw in event.answered["outcomes"]]
        spent["device_s"] = sum(outcome.device_s for outcome in outcomes)
    made = []
    for proposal, outcome in zip(batch, outcomes, strict=True):
        attempt = Attempt(len(history.attempts), proposal, outcome, event.number)
        history.attempts.append(attempt)
        made.append(attempt)
        tell(attempt.line)
    return made


def _described(proposal: Proposal) -> dict[str, Any]:
    return {
        "solution": proposal.solution.name,
        "hash": proposal.solution.hash(),
        "idea": proposal.idea,
        "parents": list(proposal.parents),
        "params": proposal.params,
    }
