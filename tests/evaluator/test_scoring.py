from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, log
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelmill.evaluator.authors import score_authors
from kernelmill.evaluator.scoring import Entry, Score, device_models, fast_p, score
from kernelmill.trace_schema import Solution, Trace, Workload
from tests.evaluator.records import (
    BASELINE,
    CPU,
    a_definition,
    a_public_trace,
    a_solution,
    a_trace,
    a_workload,
    workloads,
)

FAST, SLOW, OTHER = a_solution("fast"), a_solution("slow", author="bob"), a_solution("other", author="cy")
DEFINITION = a_definition()


def scored(loads: Sequence[Workload], traces: Sequence[Trace], **over: Any) -> Score:
    return score(DEFINITION, loads, traces, **{"device_model": CPU, **over})


def entry(board: Score, name: str = "fast") -> Entry:
    return next(each for each in board.entries if each.solution == name)


def named(*solutions: Solution) -> dict[str, Solution]:
    return {solution.name: solution for solution in solutions}


def at(day: int) -> str:
    return f"2026-04-{day:02}T00:00:00+00:00"


# --- deployed speedup ---------------------------------------------------------------------------------------------


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


# --- the baseline -------------------------------------------------------------------------------------------------


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


def test_ratios_to_an_earlier_baseline_are_not_compared_with_todays() -> None:
    load, slow_python = a_workload(), a_solution("reference").hash()
    old = a_trace(SLOW, load, 40.0, baseline_hash=slow_python, timestamp=at(1))
    new = a_trace(FAST, load, 2.0, timestamp=at(2))
    for over in ({}, {"solutions": named(FAST, SLOW, BASELINE)}):
        board = scored([load], [new, old], **over)
        assert [row.solution for row in board.entries] == ["fast", "torch"]
        assert board.ignored == {"baseline changed since": 1}


# --- ranks --------------------------------------------------------------------------------------------------------


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


# --- off the board ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", ["CHEAT_DETECTED", "SUSPECT"])
def test_one_cheat_or_suspect_takes_the_whole_solution_off_with_its_reason(verdict: str) -> None:
    loads = workloads(3)
    traces = [a_trace(FAST, load, 9.0) for load in loads[:2]]
    traces.append(a_trace(FAST, loads[2], verdict=verdict, reason="answers from a cache"))
    row = entry(scored(loads, traces))
    assert row.off_board == f"{verdict} on w3: answers from a cache"
    assert (row.rank, row.speedup.point, row.geomean, set(row.ratios.values())) == (None, 1.0, None, {0.0})
    assert row.verdicts == {"PASSED": 2, verdict: 1}


def test_a_cheat_on_another_device_or_an_older_workload_counts_here() -> None:
    load = a_workload()
    fine = a_trace(FAST, load, 9.0)
    elsewhere = a_trace(FAST, load, verdict="CHEAT_DETECTED", device="NVIDIA H200")
    stale = a_trace(FAST, a_workload("gone"), verdict="CHEAT_DETECTED", definition_hash="old")
    assert entry(scored([load], [fine, elsewhere])).off_board
    assert entry(scored([load], [fine, stale])).off_board


def test_a_cheat_is_the_sources_and_not_the_names() -> None:
    load, cheat = a_workload(), a_solution("fast", source="cheat")
    traces = [a_trace(cheat, load, verdict="CHEAT_DETECTED", timestamp="2026-03-01T00:00:00"), a_trace(FAST, load, 2.0)]
    assert entry(scored([load], traces)).off_board is None


def test_a_later_pass_does_not_clear_a_suspect_but_a_newer_judge_does() -> None:
    load = a_workload()
    suspect = a_trace(FAST, load, verdict="SUSPECT", timestamp="2026-04-01T00:00:00")
    again = a_trace(FAST, load, 2.0, timestamp="2026-04-02T00:00:00")
    newer = a_trace(FAST, load, 2.0, timestamp="2026-04-02T00:00:00", judge_version="2.0")
    assert entry(scored([load], [suspect, again])).off_board
    assert entry(scored([load], [suspect, newer])).off_board is None


def test_a_newer_judge_does_not_clear_a_cheat() -> None:
    load = a_workload()
    traces = [a_trace(FAST, load, verdict="CHEAT_DETECTED"), a_trace(FAST, load, 2.0, judge_version="2.0")]
    assert entry(scored([load], traces)).off_board


def test_a_barred_solutions_baseline_times_are_not_used() -> None:
    loads = workloads(2)
    traces = [a_trace(FAST, load, 2.0) for load in loads]
    traces += [a_trace(SLOW, loads[0], 2.0, baseline_ms=99.0), a_trace(SLOW, loads[1], verdict="CHEAT_DETECTED")]
    assert scored(loads, traces).baseline_ms == {"w1": 1.0, "w2": 1.0}


# --- several traces of one solution on one workload ---------------------------------------------------------------


@pytest.mark.parametrize("ratios", [(1.5, 2.5), (2.5, 1.5)])
def test_of_two_sittings_the_latest_counts_not_the_luckiest(ratios: tuple[float, float]) -> None:
    load = a_workload()
    traces = [a_trace(FAST, load, ratio, timestamp=at(day)) for day, ratio in enumerate(ratios, 1)]
    board = scored([load], traces)
    assert entry(board).speedup.point == pytest.approx(ratios[1])
    assert board.ignored == {"superseded by another judgement": 1}


def test_three_sittings_are_pooled() -> None:
    load = a_workload()
    traces = [a_trace(FAST, load, ratio, timestamp=at(day)) for day, ratio in enumerate((1.8, 2.0, 2.2), 1)]
    board = scored([load], traces)
    assert entry(board).speedup.point == pytest.approx((1.8 * 2.0 * 2.2) ** (1 / 3))
    assert entry(board).speedup.lo < 1.7
    assert board.ignored == {}


def test_one_session_stored_twice_is_one_sitting() -> None:
    load = a_workload()
    traces = [a_trace(FAST, load, 2.0, session="s1", timestamp=at(1))] * 3
    assert entry(scored([load], traces)).findings["w1"].traces == 1


@pytest.mark.parametrize(("older", "newer", "counts"), [("9.0", "10.0", 2.0), ("1.0", "1.1", 3.0)])
def test_only_the_newest_judge_counts_by_the_first_number_of_its_version(older: str, newer: str, counts: float) -> None:
    load = a_workload()
    old = a_trace(FAST, load, 3.0, judge_version=older, timestamp=at(9))
    new = a_trace(FAST, load, 2.0, judge_version=newer, timestamp=at(1))
    assert entry(scored([load], [old, new])).speedup.point == pytest.approx(counts)


def test_a_wrong_answer_is_not_undone_by_a_later_pass() -> None:
    load = a_workload()
    traces = [
        a_trace(FAST, load, verdict="INCORRECT_NUMERICAL", timestamp=at(1)),
        a_trace(FAST, load, 2.0, timestamp=at(2)),
    ]
    assert entry(scored([load], traces)).verdicts == {"INCORRECT_NUMERICAL": 1}


@pytest.mark.parametrize("verdict", ["TIMEOUT", "RUNTIME_ERROR", "RESOURCE_EXCEEDED", "COMPILE_ERROR"])
def test_a_failure_that_may_be_the_hosts_is_undone_by_a_later_pass_and_only_by_that(verdict: str) -> None:
    load = a_workload()
    failed, passed = a_trace(FAST, load, verdict=verdict, timestamp=at(2)), a_trace(FAST, load, 2.0, timestamp=at(3))
    assert entry(scored([load], [failed, passed])).verdicts == {"PASSED": 1}
    earlier = a_trace(FAST, load, 2.0, timestamp=at(1))
    assert entry(scored([load], [failed, earlier])).verdicts == {verdict: 1}


# --- ignored traces -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("over", "reason"),
    [
        ({"definition_hash": "old"}, "definition changed since"),
        ({"workload_hash": "old"}, "workload changed or gone since"),
        ({"workload_hash": None}, "workload changed or gone since"),
        ({"solution_hash": "old"}, "solution changed or gone since"),
        ({"solution_hash": None}, "no statistics: not judged by KernelMill, so without a baseline ratio"),
        ({"baseline_hash": "old"}, "baseline changed since"),
        ({"sandbox": "none"}, "judged without a sandbox"),
        ({"sandbox": None}, "judged without a sandbox"),
        ({"device": "NVIDIA H200"}, "other device model"),
    ],
)
def test_a_trace_that_does_not_count_is_counted_by_its_reason(over: dict[str, Any], reason: str) -> None:
    load = a_workload()
    board = scored([load], [a_trace(FAST, load, 2.0, **over)], solutions=named(FAST, BASELINE))
    assert (board.entries, board.ignored) == ((), {reason: 1})


def test_a_trace_of_another_tool_has_no_statistics() -> None:
    load = a_workload()
    board = scored([load], [a_public_trace(FAST, load)], solutions=named(FAST))
    assert (board.entries, sum(board.ignored.values()), "no statistics" in next(iter(board.ignored))) == ((), 1, True)


def test_a_workload_that_left_the_dataset_is_ignored() -> None:
    board = scored([a_workload("w1")], [a_trace(FAST, a_workload("gone"), 2.0)])
    assert board.ignored == {"workload changed or gone since": 1}


def test_unsandboxed_traces_count_only_when_asked_for() -> None:
    load = a_workload()
    trace = a_trace(FAST, load, 2.0, sandbox="none")
    assert entry(scored([load], [trace], accept_unsandboxed=True)).rank == 1


def test_traces_of_other_definitions_and_bare_workloads_are_not_this_boards() -> None:
    load = a_workload()
    bare = Trace(definition=DEFINITION.name, workload=load)
    elsewhere = a_trace(a_solution("x", definition="other_def"), load, 2.0)
    assert scored([load], [bare, elsewhere]).ignored == {}


def test_without_a_list_of_solutions_the_source_last_judged_is_current() -> None:
    load, earlier = a_workload(), a_solution("fast", source="v1")
    traces = [a_trace(FAST, load, 2.0, timestamp=at(2)), a_trace(earlier, load, 9.0, timestamp=at(1))]
    board = scored([load], traces)
    assert entry(board).speedup.point == pytest.approx(2.0)
    assert board.ignored == {"solution changed or gone since": 1}


def test_device_models_are_listed_and_kept_apart() -> None:
    load = a_workload()
    traces = [a_trace(FAST, load, 2.0), a_trace(FAST, load, 3.0, device="NVIDIA H200")]
    assert device_models(traces) == [CPU, "NVIDIA H200"]
    assert entry(scored([load], traces, device_model="NVIDIA H200")).speedup.point == pytest.approx(3.0)


# --- figures beside the score -------------------------------------------------------------------------------------


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
    traces = [a_trace(FAST, load, 2.0, timestamp=at(3)), a_trace(SLOW, load, 2.0, timestamp=at(1), judge_version="1.1")]
    conditions = scored([load], traces).conditions
    assert conditions.judge_versions == ("1.0", "1.1")
    assert (conditions.clocks, conditions.sandboxes) == (("judge (perf_counter)",), ("bwrap",))
    assert (conditions.first_judged, conditions.last_judged) == (at(1), at(3))


def test_no_traces_is_an_empty_board() -> None:
    board = scored(workloads(2), [])
    assert (board.entries, board.ignored, board.best_mix.speedup.point) == ((), {}, 1.0)


# --- hidden workloads: a gate and not a term ----------------------------------------------------------------------


def hidden_board(public_ratio: float, hidden: Trace) -> Entry:
    public = a_workload("w1")
    return entry(scored([public, SECRET], [a_trace(FAST, public, public_ratio), hidden]))


SECRET = a_workload("secret", split="hidden")


def test_hidden_workloads_do_not_enter_the_score() -> None:
    row = hidden_board(2.0, a_trace(FAST, SECRET, 1.9, baseline_ms=100.0))
    assert (row.off_board, list(row.ratios)) == (None, ["w1"])
    assert row.speedup.point == pytest.approx(2.0)


def test_a_failure_on_a_hidden_workload_is_suspect() -> None:
    row = hidden_board(2.0, a_trace(FAST, SECRET, verdict="INCORRECT_NUMERICAL"))
    assert row.off_board == "SUSPECT (overfit): 1 of 1 hidden workloads did not pass"


def test_much_slower_on_hidden_workloads_is_suspect() -> None:
    row = hidden_board(2.0, a_trace(FAST, SECRET, 1.2))
    assert row.off_board == "SUSPECT (overfit): 1.20x on hidden workloads, 2.00x on public ones"


def test_a_hidden_difference_inside_the_intervals_is_not_suspect() -> None:
    assert hidden_board(2.0, a_trace(FAST, SECRET, 1.2, ci=[0.7, 2.0])).off_board is None


# --- laws ---------------------------------------------------------------------------------------------------------

CELLS = st.lists(
    st.one_of(
        st.none(),
        st.sampled_from(["TIMEOUT", "INCORRECT_NUMERICAL", "RUNTIME_ERROR"]),
        st.floats(0.3, 4.0),
    ),
    min_size=1,
    max_size=6,
)


def traces_of(solution: Solution, loads: Sequence[Workload], cells: Sequence[float | str | None]) -> list[Trace]:
    made = []
    for number, (load, cell) in enumerate(zip(loads, cells, strict=True), 1):
        if isinstance(cell, str):
            made.append(a_trace(solution, load, verdict=cell))
        elif cell is not None:
            made.append(a_trace(solution, load, cell, baseline_ms=float(number)))
    return made


def everyone_else(loads: Sequence[Workload]) -> list[Trace]:
    """So that each workload has a baseline time, whatever the solution under test did."""
    return [a_trace(OTHER, load, 1.0, baseline_ms=float(number)) for number, load in enumerate(loads, 1)]


def speedup_of(loads: Sequence[Workload], traces: Sequence[Trace]) -> float:
    board = scored(loads, [*traces, *everyone_else(loads)])
    return next((row.speedup.point for row in board.entries if row.solution == "fast"), 1.0)


@settings(max_examples=60, deadline=None)
@given(CELLS)
def test_law_the_score_is_never_below_one(cells: list[float | str | None]) -> None:
    loads = workloads(len(cells))
    assert speedup_of(loads, traces_of(FAST, loads, cells)) >= 1.0


@settings(max_examples=60, deadline=None)
@given(CELLS, st.sampled_from([None, "TIMEOUT", "INCORRECT_SHAPE"]))
def test_law_a_further_workload_that_fails_or_is_skipped_never_raises_the_score(
    cells: list[float | str | None], verdict: str | None
) -> None:
    loads = workloads(len(cells) + 1)
    before = speedup_of(loads[:-1], traces_of(FAST, loads[:-1], cells))
    assert speedup_of(loads, traces_of(FAST, loads, [*cells, verdict])) <= before + 1e-12


@settings(max_examples=60, deadline=None)
@given(CELLS, st.data())
def test_law_skipping_a_workload_never_helps(cells: list[float | str | None], data: st.DataObject) -> None:
    loads = workloads(len(cells))
    skipped = data.draw(st.integers(0, len(cells) - 1))
    fewer = [None if number == skipped else cell for number, cell in enumerate(cells)]
    assert speedup_of(loads, traces_of(FAST, loads, fewer)) <= speedup_of(loads, traces_of(FAST, loads, cells)) + 1e-12


@settings(max_examples=60, deadline=None)
@given(CELLS, st.data(), st.floats(1.0, 3.0))
def test_law_a_faster_kernel_never_scores_less(
    cells: list[float | str | None], data: st.DataObject, factor: float
) -> None:
    loads = workloads(len(cells))
    chosen = data.draw(st.integers(0, len(cells) - 1))
    faster = [
        cell * factor if number == chosen and isinstance(cell, float) else cell for number, cell in enumerate(cells)
    ]
    assert speedup_of(loads, traces_of(FAST, loads, faster)) >= speedup_of(loads, traces_of(FAST, loads, cells)) - 1e-12


@settings(max_examples=30, deadline=None)
@given(CELLS, CELLS, st.randoms(use_true_random=False))
def test_law_the_order_of_traces_means_nothing(
    one: list[float | str | None], two: list[float | str | None], random: Any
) -> None:
    loads = workloads(6)
    traces = traces_of(FAST, loads[: len(one)], one) + traces_of(SLOW, loads[: len(two)], two)
    traces += traces_of(FAST, loads[: len(two)], two)
    shuffled = random.sample(traces, len(traces))
    assert scored(loads, shuffled) == scored(loads, traces)


@settings(max_examples=60, deadline=None)
@given(CELLS)
def test_law_a_kernel_identical_to_the_baseline_scores_one(cells: list[float | str | None]) -> None:
    loads, copy = workloads(len(cells)), a_solution("copy", source="torch")
    board = scored(loads, [*traces_of(copy, loads, cells), *everyone_else(loads)])
    assert all(row.speedup.point == 1.0 for row in board.entries if row.solution == "copy")


@settings(max_examples=30, deadline=None)
@given(CELLS, CELLS)
def test_law_the_best_mix_is_at_least_as_sure_as_any_solution(
    one: list[float | str | None], two: list[float | str | None]
) -> None:
    loads = workloads(6)
    traces = traces_of(FAST, loads[: len(one)], one) + traces_of(SLOW, loads[: len(two)], two)
    board = scored(loads, [*traces, *everyone_else(loads)])
    assert all(board.best_mix.speedup.lo >= row.speedup.lo - 1e-12 for row in board.entries)


# --- authors ------------------------------------------------------------------------------------------------------


def board_of(name: str, *entries: tuple[str, str, float]) -> Score:
    """A board of definition `name` with one workload and (solution, author, ratio) entries."""
    definition, load = a_definition(name), a_workload()
    solutions = {each: a_solution(each, author=author, definition=name) for each, author, _ in entries}
    traces = [a_trace(solutions[each], load, ratio, definition=definition) for each, _, ratio in entries]
    return score(definition, [load], traces, device_model=CPU, solutions={**solutions, "torch": BASELINE})


def test_authors_rank_over_the_whole_list_not_over_what_they_chose() -> None:
    scores = [
        board_of("d1", ("a1", "picky", 10.0), ("b1", "steady", 3.0)),
        board_of("d2", ("b2", "steady", 3.0)),
        board_of("d3", ("b3", "steady", 3.0)),
    ]
    steady, picky = score_authors(scores)
    assert (steady.author, steady.rank, steady.improved, steady.attempted, steady.all) == ("steady", 1, 3, 3, 3)
    assert (picky.author, picky.rank, picky.improved, picky.attempted, picky.all) == ("picky", 2, 1, 1, 3)
    assert picky.log_gain == pytest.approx(log(10) / 3)
    assert steady.speedup.point == pytest.approx(3.0)


def test_an_authors_best_entry_is_the_one_with_the_highest_lower_bound() -> None:
    (author,) = score_authors([board_of("d1", ("one", "ada", 2.0), ("two", "ada", 3.0))])
    assert author.best["d1"].solution == "two"


def test_baselines_are_no_authors() -> None:
    board = board_of("d1", ("a1", "ada", 2.0))
    assert [author.author for author in score_authors([board])] == ["ada"]


def test_an_author_whose_every_entry_was_removed_attempted_but_has_no_rank() -> None:
    load, solutions = a_workload(), named(FAST, BASELINE)
    board = scored([load], [a_trace(FAST, load, verdict="CHEAT_DETECTED")], solutions=solutions)
    (author,) = score_authors([board])
    assert (author.rank, author.attempted, author.improved, author.log_gain) == (None, 1, 0, 0.0)


def test_authors_whose_intervals_overlap_are_tied() -> None:
    scores = [board_of("d1", ("a", "ada", 2.0), ("b", "bob", 2.01))]
    assert [(author.author, author.rank, author.tied) for author in score_authors(scores)] == [
        ("ada", 1, True),
        ("bob", 1, True),
    ]


def test_an_authors_interval_is_the_geometric_mean_of_bounds() -> None:
    scores = [board_of("d1", ("a", "ada", 2.0)), board_of("d2")]
    (author,) = score_authors(scores)
    assert author.speedup.lo == pytest.approx(exp(log(2.0 * 0.98) / 2))
