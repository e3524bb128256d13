from __future__ import annotations

from math import exp, inf, log
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelmill.evaluator.statistics import ONE, Ratio, geometric_mean, paired_ratio, pooled_ratio, student_t
from kernelmill.trace_schema import InternalError

log_ratios = st.floats(-3, 3)
sessions_of_pairs = st.lists(st.lists(log_ratios, min_size=1, max_size=12), min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("df", "quantile"),
    [
        (1, 12.7062),
        (2, 4.3027),
        (3, 3.1824),
        (4, 2.7764),
        (5, 2.5706),
        (10, 2.2281),
        (30, 2.0423),
        (100, 1.984),
        (200, 1.9719),
    ],
)
def test_students_t_matches_the_tables(df: int, quantile: float) -> None:
    assert student_t(df) == pytest.approx(quantile, abs=5e-5)


def test_students_t_at_other_confidences() -> None:
    assert student_t(4, 0.9) == pytest.approx(2.1318, abs=5e-5)
    assert student_t(7, 0.99) == pytest.approx(3.4995, abs=5e-5)


@settings(max_examples=40, deadline=None)
@given(sessions_of_pairs)
def test_swapping_the_sides_gives_the_reciprocal(sessions: list[list[float]]) -> None:
    ratio, swapped = paired_ratio(sessions), paired_ratio([[-value for value in session] for session in sessions])
    assert swapped.point == pytest.approx(1 / ratio.point)
    assert swapped.lo == pytest.approx(1 / ratio.hi if ratio.hi < inf else 0.0)
    assert swapped.hi == pytest.approx(1 / ratio.lo if ratio.lo > 0 else inf)
    assert swapped.kind == ratio.kind


@settings(max_examples=40, deadline=None)
@given(sessions_of_pairs)
def test_the_point_lies_in_the_interval(sessions: list[list[float]]) -> None:
    ratio = paired_ratio(sessions)
    assert ratio.lo <= ratio.point * (1 + 1e-12)
    assert ratio.point <= ratio.hi * (1 + 1e-12)


@pytest.mark.parametrize("sessions", [[[0.5]], [[0.5, 0.5, 0.5, 0.5, 0.5]], [[0.5, 0.5], [0.5]], [[0.5], [0.5], [0.5]]])
def test_fewer_than_six_pairs_bound_nothing(sessions: list[list[float]]) -> None:
    ratio = paired_ratio(sessions)
    assert (ratio.lo, ratio.hi) == (0.0, inf)
    assert ratio.point == pytest.approx(exp(0.5))


def test_three_sessions_make_a_t_interval() -> None:
    sessions = [[centre] * 10 for centre in (0.1, 0.2, 0.3)]
    ratio = paired_ratio(sessions)
    assert ratio.kind == "sessions"
    assert log(ratio.hi) == pytest.approx(0.2 + 4.3027 * 0.1 / 3**0.5, abs=1e-4)


def test_two_sessions_say_nothing_of_a_third_and_are_marked_so() -> None:
    ratio = paired_ratio([[0.1] * 40, [0.3] * 6])
    assert ratio.kind == "within-session"
    assert ratio.lo <= exp(0.1)
    assert ratio.hi >= exp(0.3)


def test_sessions_that_agree_by_luck_are_no_surer_than_their_pairs() -> None:
    pairs = [0.2 + step / 10 for step in range(-5, 6)]
    agreeing = paired_ratio([pairs, pairs, pairs])
    assert log(agreeing.hi / agreeing.lo) >= 0.2


def test_empty_sessions_are_left_out() -> None:
    assert paired_ratio([[], [0.1] * 8, []]) == paired_ratio([[0.1] * 8])


@pytest.mark.parametrize("sessions", [[], [[]], [[float("nan")]], [[0.1, inf]]])
def test_nothing_or_nonsense_is_the_callers_fault(sessions: list[list[float]]) -> None:
    with pytest.raises(InternalError, match="finite log ratios"):
        paired_ratio(sessions)


def _heavy_tailed(random: Random) -> float:
    return random.gauss(0, 0.01) * (20 if random.random() < 0.05 else 1)


def _covered(sessions: int, pairs: int, session_effect: float, seed: int) -> bool:
    random, truth = Random(seed), 0.2
    drawn = []
    for _ in range(sessions):
        centre = truth + random.gauss(0, session_effect)
        drawn.append([centre + _heavy_tailed(random) for _ in range(pairs)])
    ratio = paired_ratio(drawn)
    return ratio.lo <= exp(truth) <= ratio.hi


@pytest.mark.parametrize(
    ("sessions", "pairs", "session_effect"),
    [(1, 12, 0.0), (1, 30, 0.0), (2, 20, 0.0), (3, 10, 0.01), (3, 30, 0.02), (5, 20, 0.02)],
)
def test_the_interval_covers_the_truth(sessions: int, pairs: int, session_effect: float) -> None:
    trials = 300
    covered = sum(_covered(sessions, pairs, session_effect, seed) for seed in range(trials))
    assert covered / trials >= 0.93


def test_pooling_takes_each_sitting_as_one_observation() -> None:
    sittings = [Ratio(exp(centre), exp(centre - 0.01), exp(centre + 0.01)) for centre in (0.1, 0.2, 0.3)]
    pooled = pooled_ratio(sittings)
    assert pooled.point == pytest.approx(exp(0.2))
    assert log(pooled.hi) == pytest.approx(0.2 + 4.3027 * 0.1 / 3**0.5, abs=1e-4)


def test_pooled_sittings_that_agree_keep_their_own_uncertainty() -> None:
    pooled = pooled_ratio([Ratio(1.5, 1.5 / 1.1, 1.5 * 1.1)] * 4)
    assert log(pooled.hi / 1.5) == pytest.approx(log(1.1) / 2)


def test_pooling_needs_three_sittings() -> None:
    with pytest.raises(InternalError, match="3 sittings"):
        pooled_ratio([ONE, ONE])


def test_geometric_mean() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([2.0, 0.0]) == 0.0
    assert geometric_mean([2.0, inf]) == inf
    with pytest.raises(InternalError):
        geometric_mean([])
