"""A landscape with a planted optimum: two parameters in a source text, a judge that needs no device, and a clock."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from kernelmill.agents.attempt import Proposal
from kernelmill.agents.budget import Budget, Limits
from kernelmill.agents.journal import Journal
from kernelmill.agents.outcome import Fidelity, Gate, Outcome, Timing
from kernelmill.agents.strategies.base import History
from kernelmill.trace_schema import Solution
from tests import builders

BEST = (6, 3)
SIZE = 10
SECONDS = 2.0


def source(x: int, y: int) -> str:
    return f"# x={x} y={y}\ndef run(hidden_states, weight, output):\n    pass\n"


def solution(x: int, y: int) -> Solution:
    return builders.solution(name=f"toy-{x}-{y}", author="agent", source=source(x, y))


def proposal(x: int, y: int, fidelity: Fidelity = "full") -> Proposal:
    return Proposal(solution(x, y), idea=f"x={x} y={y}", fidelity=fidelity)


def place(text: str) -> tuple[int, int] | None:
    found = re.search(r"# x=(\d+) y=(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def gain(x: int, y: int) -> float:
    return 2.0 - 0.1 * (abs(x - BEST[0]) + abs(y - BEST[1]))


class ToyJudge:
    """Counts what it judged. Sources without parameters do not compile; those outside the landscape are wrong."""

    def __init__(self, log: str = "") -> None:
        self.judged: list[str] = []
        self._log = log

    def judge(self, solutions: Sequence[Solution], fidelity: Fidelity, deadline_s: float) -> list[Outcome]:
        self.judged += [one.name for one in solutions]
        return [self._outcome(one, fidelity) for one in solutions]

    def _outcome(self, one: Solution, fidelity: Fidelity) -> Outcome:
        at = place(one.sources[0].content)
        if at is None:
            return Outcome(gate=Gate.COMPILE, fidelity=fidelity, cause="no parameters", log=self._log, device_s=SECONDS)
        if not all(0 <= value < SIZE for value in at):
            return Outcome(gate=Gate.NUMERIC, fidelity=fidelity, cause="outside", log=self._log, device_s=SECONDS)
        faster = gain(*at)
        times = Timing(workload="w", axes={"n": 4}, ms=1 / faster, baseline_ms=1.0, ratio=faster, lo=faster, hi=faster)
        return Outcome(
            gate=Gate.PASSED if faster > 1 else Gate.SLOWER,
            fidelity=fidelity,
            judged=1,
            expected=1,
            timings=(times,),
            gain=faster,
            speedup=max(1.0, faster),
            lo=max(1.0, faster),
            hi=max(1.0, faster),
            log=self._log,
            device_s=SECONDS,
        )


def history(**limits: float) -> History:
    return History(Budget(Limits.model_validate(limits)))


def journal(folder: Path, secrets: tuple[str, ...] = ()) -> Journal:
    return Journal(folder, secrets=secrets)
