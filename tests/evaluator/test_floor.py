"""Times that no device can reach: SUSPECT where their whole interval is below the floor, and not where they scatter."""

from __future__ import annotations

import pytest

from kernelmill.evaluator.cost import Work
from kernelmill.evaluator.devices.cpu import Cpu
from kernelmill.evaluator.judge import Outcome
from kernelmill.evaluator.trace_maker import below_floor

FLOOR_S = 1e-6
WORK = Work(bytes=1.0, flops=1.0)


class Floored(Cpu):
    def floor_s(self, work: Work) -> float:
        return FLOOR_S


def told(*sessions: list[float]) -> str | None:
    """What is said of solution times in microseconds."""
    pairs = [[(1e-6 * each, 5e-6) for each in session] for session in sessions]
    return below_floor(Outcome(pairs=pairs), WORK, Floored())


@pytest.mark.parametrize("count", [1, 3, 8, 12])
def test_steadily_below_is_told(count: int) -> None:
    found = told([0.4 + 0.01 * (number % 3) for number in range(count)])
    assert found and "below the physical floor of 0.001 ms" in found


def test_one_slow_call_of_many_excuses_nothing() -> None:
    assert told([0.4] * 11 + [3.0]) is not None
    assert told([0.4] * 12, [0.41] * 12, [0.4] * 11 + [3.0]) is not None


@pytest.mark.parametrize("times", [[0.9, 1.1, 0.95], [0.8, 0.9, 0.95, 1.05, 0.7, 1.2, 0.9, 1.1]])
def test_times_that_scatter_about_the_floor_are_not_accused(times: list[float]) -> None:
    assert told(times) is None


def test_at_the_floor_and_without_times_nothing_is_told() -> None:
    assert told([1.0] * 8) is None
    assert told() is None
    assert told([]) is None
