"""The reduction's laws: every step counts once, extremes stay, what is hidden is unlike what is public."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from kernelmill.dataset.derive.reduce import hidden, public, strata

TABLES = (
    st.integers(1, 3)
    .flatmap(lambda width: st.lists(st.tuples(*[st.integers(1, 5000)] * width), min_size=1, max_size=120))
    .map(lambda rows: np.array(rows))
)


@given(TABLES, st.integers(1, 40))
def test_every_step_is_in_one_stratum_and_equal_ones_in_the_same(table: np.ndarray, count: int) -> None:
    found = strata(table, count)
    assert sorted(np.concatenate(found).tolist()) == list(range(len(table)))
    assert len(found) <= max(count, 2 * table.shape[1] + 1)
    homes = [{tuple(row) for row in table[members].tolist()} for members in found]
    assert sum(map(len, homes)) == len({tuple(row) for row in table.tolist()})


@given(TABLES, st.integers(1, 40))
def test_picks_stand_for_all_steps_and_keep_the_extremes(table: np.ndarray, count: int) -> None:
    picks = public(table, count)
    assert sum(pick.steps for pick in picks) == len(table)
    chosen = table[[pick.row for pick in picks]]
    assert (chosen.min(axis=0) == table.min(axis=0)).all() and (chosen.max(axis=0) == table.max(axis=0)).all()


@given(TABLES, st.integers(1, 40), st.data())
def test_rows_that_stand_for_several_steps_count_as_often(table: np.ndarray, count: int, data: st.DataObject) -> None:
    steps = np.array(data.draw(st.lists(st.integers(1, 9), min_size=len(table), max_size=len(table))))
    picks = public(table, count, steps)
    assert sum(pick.steps for pick in picks) == steps.sum()
    assert [pick.steps for pick in picks] == [pick.steps for pick in public(np.repeat(table, steps, axis=0), count)]


@given(TABLES, st.text(min_size=1))
def test_hidden_picks_are_unlike_public_ones(table: np.ndarray, seed: str) -> None:
    taken = public(table, 8)
    known = {tuple(row) for row in table[[pick.row for pick in taken]].tolist()}
    found = hidden(table, 8, taken, seed)
    assert not known & {tuple(table[pick.row].tolist()) for pick in found}
    assert found == hidden(table, 8, taken, seed)
    assert found or len({tuple(row) for row in table.tolist()}) == len(known)


@given(st.text(min_size=1), st.text(min_size=1))
def test_hidden_picks_depend_on_the_seed(one: str, other: str) -> None:
    assume(one != other)
    table = np.arange(1, 5001).reshape(-1, 1)
    taken = public(table, 8)
    assert hidden(table, 8, taken, one) != hidden(table, 8, taken, other)


def test_strata_are_wide_where_steps_are_few() -> None:
    table = np.concatenate([np.full(900, 3), np.arange(1, 2000)]).reshape(-1, 1)
    rows = sorted(int(table[pick.row, 0]) for pick in public(table, 16))
    assert rows[0] == 1 and 3 in rows and rows[-1] == 1999
    assert max(b / a for a, b in pairwise(rows)) <= 4
