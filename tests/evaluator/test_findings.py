from __future__ import annotations

import pytest

from tests.evaluator.records import (
    BASELINE,
    FAST,
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

# --- several traces of one solution on one workload ----------------------------------------------------------------


@pytest.mark.parametrize("ratios", [(1.5, 2.5), (2.5, 1.5)])
def test_of_two_sittings_the_latest_counts_not_the_luckiest(ratios: tuple[float, float]) -> None:
    load = a_workload()
    traces = [a_trace(FAST, load, ratio, timestamp=on_day(day)) for day, ratio in enumerate(ratios, 1)]
    board = scored([load], traces)
    assert entry(board).speedup.point == pytest.approx(ratios[1])
    assert board.ignored == {"superseded by another judgement": 1}


def test_three_sittings_are_pooled() -> None:
    load = a_workload()
    traces = [a_trace(FAST, load, ratio, timestamp=on_day(day)) for day, ratio in enumerate((1.8, 2.0, 2.2), 1)]
    board = scored([load], traces)
    assert entry(board).speedup.point == pytest.approx((1.8 * 2.0 * 2.2) ** (1 / 3))
    assert entry(board).speedup.lo < 1.7
    assert board.ignored == {}


def test_one_session_stored_twice_is_one_sitting() -> None:
    load = a_workload()
    traces = [a_trace(FAST, load, 2.0, session="s1", timestamp=on_day(1))] * 3
    assert entry(scored([load], traces)).findings["w1"].traces == 1


@pytest.mark.parametrize(("older", "newer", "counts"), [("9.0", "10.0", 2.0), ("1.0", "1.1", 3.0)])
def test_only_the_newest_judge_counts_by_the_first_number_of_its_version(older: str, newer: str, counts: float) -> None:
    load = a_workload()
    old = a_trace(FAST, load, 3.0, judge_version=older, timestamp=on_day(9))
    new = a_trace(FAST, load, 2.0, judge_version=newer, timestamp=on_day(1))
    assert entry(scored([load], [old, new])).speedup.point == pytest.approx(counts)


def test_a_wrong_answer_is_not_undone_by_a_later_pass() -> None:
    load = a_workload()
    traces = [
        a_trace(FAST, load, verdict="INCORRECT_NUMERICAL", timestamp=on_day(1)),
        a_trace(FAST, load, 2.0, timestamp=on_day(2)),
    ]
    assert entry(scored([load], traces)).verdicts == {"INCORRECT_NUMERICAL": 1}


@pytest.mark.parametrize("verdict", ["TIMEOUT", "RUNTIME_ERROR", "RESOURCE_EXCEEDED", "COMPILE_ERROR"])
def test_a_failure_that_may_be_the_hosts_is_undone_by_a_later_pass_and_only_by_that(verdict: str) -> None:
    load = a_workload()
    failed, passed = (
        a_trace(FAST, load, verdict=verdict, timestamp=on_day(2)),
        a_trace(FAST, load, 2.0, timestamp=on_day(3)),
    )
    assert entry(scored([load], [failed, passed])).verdicts == {"PASSED": 1}
    earlier = a_trace(FAST, load, 2.0, timestamp=on_day(1))
    assert entry(scored([load], [failed, earlier])).verdicts == {verdict: 1}


# --- off the board -------------------------------------------------------------------------------------------------


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


def test_another_name_does_not_clear_a_source() -> None:
    load, again = a_workload(), a_solution("again", source="fast", author="eve")
    traces = [a_trace(FAST, load, verdict="CHEAT_DETECTED"), a_trace(again, load, 2.0)]
    assert entry(scored([load], traces), "again").off_board
    assert entry(scored([load], traces, solutions=named(again, BASELINE)), "again").off_board


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
