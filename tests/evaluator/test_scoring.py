from __future__ import annotations

from math import inf

import pytest

from kernelmill.evaluator.scoring import fast_p
from tests.evaluator.records import (
    BASELINE,
    FAST,
    OTHER,
    SLOW,
    a_solution,
    a_trace,
    a_workload,
    entry,
    named,
    on_day,
    scored,
    workloads,
)

# --- deployed speedup ----------------------------------------------------------------------------------------------


def test_the_speedup_weighs_workloads_by_baseline_time_and_calls() -> None:
    short, long = a_workload("short", weight=9), a_workload("long", weight=1)
    traces = [a_trace(FAST, short, 3.0, baseline_ms=1.0), a_trace(FAST, long, 1.5, baseline_ms=3.0)]
    assert entry(scored([short, long], traces)).speedup.point == pytest.approx((9 + 3) / (9 / 3 + 3 / 1.5))


def test_a_weight_left_out_is_one_call() -> None:
    loads = [a_workload("w1"), a_workload("w2", weight=1)]
    traces = [a_trace(FAST, loads[0], 2.0), a_trace(FAST, loads[1], 4.0)]
    assert entry(scored(loads, traces)).speedup.point == pytest.approx(2 / (0.5 + 0.25))


@pytest.mark.parametrize(
    ("ci", "expected"), [([1.01, 1.5], 1.2), ([1.0, 1.5], 1.0), ([0.99, 1.5], 1.0), ([0.5, inf], 1.0)]
)
def test_only_a_sure_gain_is_deployed(ci: list[float], expected: float) -> None:
    load = a_workload()
    assert entry(scored([load], [a_trace(FAST, load, 1.2, ci=ci)])).speedup.point == pytest.approx(expected)


def test_a_slower_kernel_scores_one_and_not_less() -> None:
    load = a_workload()
    found = entry(scored([load], [a_trace(SLOW, load, 0.5)]), "slow")
    assert (found.speedup.point, found.speedup.lo, found.speedup.hi) == (1.0, 1.0, 1.0)
    assert found.geomean == pytest.approx(0.5)


def test_a_ratio_without_an_interval_is_not_deployed() -> None:
    load = a_workload()
    assert entry(scored([load], [a_trace(FAST, load, 5.0, ci=[0.0, inf])])).speedup.point == 1.0


def test_a_missing_workload_counts_with_the_baseline_time_that_others_met() -> None:
    loads = workloads(2)
    traces = [a_trace(FAST, loads[0], 2.0), a_trace(SLOW, loads[1], 0.5, baseline_ms=3.0)]
    assert entry(scored(loads, traces)).speedup.point == pytest.approx(4 / (0.5 + 3))


def test_a_failed_workload_counts_like_a_missing_one() -> None:
    loads = workloads(2)
    traces = [a_trace(FAST, loads[0], 2.0), a_trace(SLOW, loads[1], 0.5, baseline_ms=3.0)]
    failing = [*traces, a_trace(FAST, loads[1], verdict="INCORRECT_NUMERICAL")]
    assert entry(scored(loads, failing)).speedup == entry(scored(loads, traces)).speedup
    assert entry(scored(loads, failing)).pass_rate == 0.5


def test_all_solutions_meet_the_same_baseline_time() -> None:
    loads = workloads(2)
    traces = [a_trace(solution, load, 2.0) for solution in (FAST, OTHER) for load in loads]
    traces += [a_trace(SLOW, loads[0], 2.0, baseline_ms=50.0), a_trace(SLOW, loads[1], 1.1)]
    board = scored(loads, traces)
    assert board.baseline_ms == {"w1": 1.0, "w2": 1.0}
    assert entry(board, "slow").speedup.point == pytest.approx(2 / (1 / 2 + 1 / 1.1))


def test_the_interval_takes_every_workloads_bound_at_once() -> None:
    loads = workloads(2)
    traces = [a_trace(FAST, loads[0], 2.0, ci=[1.6, 2.5]), a_trace(FAST, loads[1], 4.0, ci=[3.0, 5.0])]
    speedup = entry(scored(loads, traces)).speedup
    assert speedup.lo == pytest.approx(2 / (1 / 1.6 + 1 / 3.0))
    assert speedup.hi == pytest.approx(2 / (1 / 2.5 + 1 / 5.0))


def test_one_workload_measured_within_a_session_marks_the_sum() -> None:
    loads = workloads(2)
    traces = [a_trace(FAST, loads[0], 2.0), a_trace(FAST, loads[1], 2.0, sessions=1)]
    assert entry(scored(loads, traces)).speedup.kind == "within-session"
    assert entry(scored(loads, traces[:1])).speedup.kind == "sessions"


# --- the baseline --------------------------------------------------------------------------------------------------


def test_the_baseline_is_a_row_of_exactly_one() -> None:
    load = a_workload()
    row = entry(scored([load], [a_trace(FAST, load, 2.0)]), "torch")
    assert (row.is_baseline, row.speedup.point, row.geomean, row.rank) == (True, 1.0, 1.0, 2)


def test_the_baselines_own_traces_give_it_verdicts_but_no_ratio() -> None:
    load = a_workload()
    row = entry(scored([load], [a_trace(BASELINE, load, 1.04)], solutions=named(BASELINE)), "torch")
    assert (row.is_baseline, row.author, row.verdicts) == (True, "baseline", {"PASSED": 1})
    assert (row.speedup.lo, row.speedup.point, row.speedup.hi) == (1.0, 1.0, 1.0)
    assert row.ratios == {"w1": 1.0}


def test_a_copy_of_the_baseline_scores_one_and_never_stands_above_it() -> None:
    load, copy = a_workload(), a_solution("a_copy", source="torch")
    assert copy.hash() == BASELINE.hash()
    early = a_trace(copy, load, 1.3, ci=[1.2, 1.4], timestamp="2020-01-01T00:00:00+00:00")
    board = scored([load], [early, a_trace(BASELINE, load, 1.0)])
    assert [(row.solution, row.rank, row.speedup.point) for row in board.entries] == [
        ("torch", 1, 1.0),
        ("a_copy", 1, 1.0),
    ]


# --- ranks ---------------------------------------------------------------------------------------------------------


def test_overlapping_intervals_are_a_tie_in_order_of_submission() -> None:
    load = a_workload()
    traces = [
        a_trace(FAST, load, 2.0, ci=[1.8, 2.2], timestamp="2026-04-02T00:00:00"),
        a_trace(SLOW, load, 1.9, ci=[1.7, 2.1], timestamp="2026-04-01T00:00:00"),
        a_trace(OTHER, load, 1.5, ci=[1.4, 1.6]),
    ]
    board = scored([load], traces)
    assert [(row.solution, row.rank, row.tied) for row in board.entries] == [
        ("slow", 1, True),
        ("fast", 1, True),
        ("other", 3, False),
        ("torch", 4, False),
    ]


def test_the_first_judgement_of_a_source_dates_it_not_the_last() -> None:
    load = a_workload()
    traces = [
        a_trace(FAST, load, 2.0, timestamp="2026-04-05T00:00:00"),
        a_trace(FAST, load, 2.0, timestamp="2026-04-01T00:00:00", judge_version="0.9"),
        a_trace(SLOW, load, 2.0, timestamp="2026-04-03T00:00:00"),
    ]
    assert [row.solution for row in scored([load], traces).entries] == ["fast", "slow", "torch"]


def test_an_unreadable_timestamp_comes_last_among_equals() -> None:
    load = a_workload()
    traces = [a_trace(FAST, load, 2.0, timestamp="yesterday"), a_trace(SLOW, load, 2.0)]
    assert [row.solution for row in scored([load], traces).entries][:2] == ["slow", "fast"]


def test_nothing_timed_is_no_rank() -> None:
    load = a_workload()
    traces = [a_trace(FAST, load, None), a_trace(SLOW, load, verdict="TIMEOUT"), a_trace(OTHER, load, 2.0)]
    board = scored([load], traces)
    assert [(row.solution, row.rank) for row in board.entries] == [
        ("other", 1),
        ("torch", 2),
        ("fast", None),
        ("slow", None),
    ]


def test_a_pass_without_times_counts_as_passed_and_not_as_fast() -> None:
    load = a_workload()
    row = entry(scored([load], [a_trace(FAST, load, None)]))
    assert (row.pass_rate, row.coverage, row.timed, row.geomean, row.verdicts) == (1.0, 1.0, 0, None, {"PASSED": 1})
    assert fast_p(row.ratios.values(), 0) == 0.0


# --- figures beside the score --------------------------------------------------------------------------------------


def test_fast_p_counts_failed_and_missing_workloads_as_zero() -> None:
    ratios = [0.0, 0.5, 1.0, 1.5, 2.0]
    assert [fast_p(ratios, p) for p in (0, 1, 1.5, 2, 3)] == [0.8, 0.4, 0.2, 0.0, 0.0]
    assert fast_p([], 1) == 0.0


def test_coverage_pass_rate_and_geomean() -> None:
    loads = workloads(4)
    traces = [a_trace(FAST, loads[0], 2.0), a_trace(FAST, loads[1], 0.5), a_trace(FAST, loads[2], verdict="TIMEOUT")]
    row = entry(scored(loads, traces))
    assert (row.coverage, row.pass_rate) == (0.75, 0.5)
    assert row.geomean == pytest.approx(1.0)
    assert row.ratios == {"w1": 2.0, "w2": 0.5, "w3": 0.0, "w4": 0.0}


def test_the_roofline_share_is_least_time_over_time_taken() -> None:
    loads = workloads(2)
    traces = [a_trace(FAST, loads[0], 2.0, roofline_ms=0.4), a_trace(FAST, loads[1], 1.0, roofline_ms=0.2)]
    assert entry(scored(loads, traces)).roofline == pytest.approx(0.6 / 1.5)


def test_conditions_say_how_the_counted_traces_were_made() -> None:
    load = a_workload()
    traces = [
        a_trace(FAST, load, 2.0, timestamp=on_day(3)),
        a_trace(SLOW, load, 2.0, timestamp=on_day(1), judge_version="1.1"),
    ]
    conditions = scored([load], traces).conditions
    assert conditions.judge_versions == ("1.0", "1.1")
    assert (conditions.clocks, conditions.sandboxes) == (("judge (perf_counter)",), ("bwrap",))
    assert (conditions.first_judged, conditions.last_judged) == (on_day(1), on_day(3))


def test_no_traces_is_an_empty_board() -> None:
    board = scored(workloads(2), [])
    assert (board.entries, board.ignored, board.best_mix.speedup.point) == ((), {}, 1.0)
