from __future__ import annotations

import pytest

from kernelmill.evaluator.record import Finding
from kernelmill.evaluator.scoring import Entry
from kernelmill.evaluator.selection import Choice, choose, may_replace
from kernelmill.evaluator.statistics import Ratio
from kernelmill.trace_schema import Trace, Verdict, Workload
from tests.evaluator.records import (
    CPU,
    FAST,
    OTHER,
    a_definition,
    a_trace,
    a_workload,
    entry,
    scored,
    workloads,
)


def chosen(loads: list[Workload], *traces: Trace) -> list[Choice]:
    return choose(a_definition(), loads, traces, CPU)


@pytest.mark.parametrize(
    ("finding", "may"),
    [
        (None, False),
        (Finding(Verdict.TIMEOUT), False),
        (Finding(Verdict.PASSED), False),
        (Finding(Verdict.PASSED, ratio=Ratio(1.5, 1.0, 2.0)), False),
        (Finding(Verdict.PASSED, ratio=Ratio(1.5, 1.0001, 2.0)), True),
    ],
)
def test_what_may_replace_the_baseline(finding: Finding | None, may: bool) -> None:
    assert may_replace(finding) is may


def test_each_workload_gets_its_own_winner_in_the_order_given() -> None:
    loads = workloads(2)
    traces = [a_trace(FAST, loads[0], 3.0), a_trace(OTHER, loads[0], 2.0)]
    traces += [a_trace(FAST, loads[1], 2.0), a_trace(OTHER, loads[1], 3.0)]
    assert [(load.uuid, solution) for load, solution, _ in chosen(loads, *traces)] == [("w1", "fast"), ("w2", "other")]
    assert [load.uuid for load, _, _ in chosen(loads[::-1], *traces)] == ["w2", "w1"]


def test_a_sure_gain_goes_before_a_larger_unsure_one() -> None:
    load = a_workload()
    (choice,) = chosen([load], a_trace(FAST, load, 3.0, ci=[1.1, 9.0]), a_trace(OTHER, load, 2.0, ci=[1.9, 2.1]))
    assert choice.solution == "other"
    assert choice.why == "2.00x, at least 1.90x: the highest lower bound of 2 judged"


def test_equal_bounds_go_to_the_earlier() -> None:
    load = a_workload()
    late = a_trace(FAST, load, 2.0, timestamp="2026-04-02T00:00:00")
    assert chosen([load], late, a_trace(OTHER, load, 2.0))[0].solution == "other"


def test_a_barred_solution_is_never_chosen_not_even_where_it_passed() -> None:
    loads = workloads(2)
    traces = [a_trace(FAST, loads[0], 9.0), a_trace(FAST, loads[1], verdict="CHEAT_DETECTED")]
    assert [choice.solution for choice in chosen(loads, *traces, a_trace(OTHER, loads[0], 2.0))] == ["other", None]


def test_the_baseline_stays_and_the_reason_says_why() -> None:
    loads = workloads(3)
    traces = [a_trace(FAST, loads[0], 0.9), a_trace(FAST, loads[1], verdict="TIMEOUT")]
    assert [(choice.solution, choice.why) for choice in chosen(loads, *traces)] == [
        (None, "none of 1 that passed is faster beyond its interval"),
        (None, "none of 1 judged passed"),
        (None, "no solution was judged on it"),
    ]


def test_hidden_workloads_are_not_chosen_for() -> None:
    loads = [a_workload("w1"), a_workload("w2", split="hidden")]
    assert [choice.workload.uuid for choice in chosen(loads, a_trace(FAST, loads[0], 2.0))] == ["w1"]


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
