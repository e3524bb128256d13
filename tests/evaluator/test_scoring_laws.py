from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kernelmill.trace_schema import Solution, Trace, Workload
from tests.evaluator.records import (
    FAST,
    OTHER,
    SLOW,
    a_solution,
    a_trace,
    scored,
    workloads,
)

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
