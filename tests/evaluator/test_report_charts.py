from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelmill.evaluator.report.charts import Axis, bar, curve, ratio_axis, stack
from kernelmill.evaluator.statistics import ONE, Ratio


@given(st.lists(st.floats(1e-3, 1e4)))
def test_an_axis_shows_one_and_every_ratio(ratios: list[float]) -> None:
    axis = ratio_axis(ratios)
    assert 1 in axis.ticks
    assert len(axis.ticks) >= 2
    assert all(axis.ticks[0] <= ratio <= axis.ticks[-1] for ratio in ratios if 2**-10 <= ratio <= 2**13)


@pytest.mark.parametrize(
    ("ratios", "ticks"),
    [
        ([1.0, 3.1], (1, 2, 4)),
        ([0.3, 1.2], (0.25, 0.5, 1, 2)),
        ([1.02, 1.25], (1, 1.1, 1.2, 1.3)),
        ([0.0, float("inf"), 1.5], (1, 1.1, 1.2, 1.3, 1.4, 1.5)),
    ],
)
def test_marks_are_powers_of_two_or_tenths(ratios: list[float], ticks: tuple[float, ...]) -> None:
    assert ratio_axis(ratios).ticks == ticks


def test_twice_and_half_as_fast_lie_equally_far_from_one() -> None:
    axis = Axis((0.25, 0.5, 1, 2, 4))
    assert [axis.at(ratio) for ratio in (0.25, 0.5, 1, 2, 4, 99, 0)] == [0, 25, 50, 75, 100, 100, 0]


def test_a_bar_runs_from_one_to_the_speedup() -> None:
    drawn = bar(Axis((0.5, 1, 2)), Ratio(2**0.5, 1.0, 2.0), geomean=0.5)
    assert (drawn.start, drawn.width, drawn.lo, drawn.hi, drawn.dot) == (50, 25, 50, 100, 0)
    assert bar(Axis((0.5, 1, 2)), ONE).width == 0


def test_a_curve_falls_at_each_ratio_by_its_share() -> None:
    drawn = curve(Axis((0.5, 1, 2)), "ada", [0.0, 1.0, 2.0, 2.0])
    assert drawn.path == "M0 250H500V500H1000V1000H1000"
    assert drawn.values == (0.75, 0.5, 0.0)


def test_stacks_fill_the_width_in_a_fixed_order() -> None:
    segments = stack({"TIMEOUT": 1, "NOT_JUDGED": 2, "PASSED": 4, "COMPILE_ERROR": 1})
    assert [(each.group, each.count, each.start, each.width) for each in segments] == [
        ("passed", 4, 0, 50),
        ("failed", 2, 50, 25),
        ("not judged", 2, 75, 25),
    ]
