from __future__ import annotations

import time
from typing import Any

import pytest

from kernelmill.evaluator.admission import device_models, moment
from kernelmill.trace_schema import Trace
from tests.evaluator.records import (
    BASELINE,
    CPU,
    FAST,
    SLOW,
    a_definition,
    a_public_trace,
    a_solution,
    a_trace,
    a_workload,
    entry,
    named,
    on_day,
    scored,
)


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
    bare = Trace(definition=a_definition().name, workload=load)
    elsewhere = a_trace(a_solution("x", definition="other_def"), load, 2.0)
    assert scored([load], [bare, elsewhere]).ignored == {}


def test_without_a_list_of_solutions_the_source_last_judged_is_current() -> None:
    load, earlier = a_workload(), a_solution("fast", source="v1")
    traces = [a_trace(FAST, load, 2.0, timestamp=on_day(2)), a_trace(earlier, load, 9.0, timestamp=on_day(1))]
    board = scored([load], traces)
    assert entry(board).speedup.point == pytest.approx(2.0)
    assert board.ignored == {"solution changed or gone since": 1}


def test_device_models_are_listed_and_kept_apart() -> None:
    load = a_workload()
    traces = [a_trace(FAST, load, 2.0), a_trace(FAST, load, 3.0, device="NVIDIA H200")]
    assert device_models(traces) == [CPU, "NVIDIA H200"]
    assert entry(scored([load], traces, device_model="NVIDIA H200")).speedup.point == pytest.approx(3.0)


def test_ratios_to_an_earlier_baseline_are_not_compared_with_todays() -> None:
    load, slow_python = a_workload(), a_solution("reference").hash()
    old = a_trace(SLOW, load, 40.0, baseline_hash=slow_python, timestamp=on_day(1))
    new = a_trace(FAST, load, 2.0, timestamp=on_day(2))
    for over in ({}, {"solutions": named(FAST, SLOW, BASELINE)}):
        board = scored([load], [new, old], **over)
        assert [row.solution for row in board.entries] == ["fast", "torch"]
        assert board.ignored == {"baseline changed since": 1}


def test_a_time_without_a_zone_is_utc_wherever_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert moment("2026-04-01T12:00:00") == moment("2026-04-01T12:00:00Z") == moment("2026-04-01T14:00:00+02:00")
    finally:
        monkeypatch.undo()
        time.tzset()
