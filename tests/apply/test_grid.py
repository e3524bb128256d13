"""The grid finds what a walk through all boxes would."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kernelmill.apply.grid import Box, make_grid
from kernelmill.apply.ranges import Sizes, spans

SIZE = st.integers(0, 40)


@st.composite
def boxes(draw: st.DrawFn, features: int) -> Box:
    ends = [sorted((draw(SIZE), draw(SIZE))) for _ in range(features)]
    return Box(tuple(end[0] for end in ends), tuple(end[1] for end in ends), draw(st.integers(0, 3)))


@given(st.integers(1, 3).flatmap(lambda n: st.tuples(st.just(n), st.lists(boxes(n), max_size=6))), st.data())
def test_a_cell_holds_the_first_box_that_covers_it(made: tuple[int, list[Box]], data: st.DataObject) -> None:
    features, some = made
    grid = make_grid(features, some)
    sizes = data.draw(st.tuples(*[st.integers(0, 45)] * features))
    expected = next((box.kernel for box in some if sizes in box), None)
    cell = grid.cell(sizes)
    assert grid.cells[cell] == expected
    for size, (lo, hi) in zip(sizes, grid.span(cell), strict=True):
        assert (lo is None or lo <= size) and (hi is None or size <= hi)


@given(st.dictionaries(st.tuples(SIZE, SIZE), st.booleans(), max_size=8))
def test_no_range_holds_a_measured_size_that_may_not_be_served(measured: dict[Sizes, bool]) -> None:
    found = spans(measured)
    for box in found:
        inside = [p for p in measured if all(lo <= s <= hi for lo, s, hi in zip(box.lo, p, box.hi, strict=True))]
        assert sorted(inside) == sorted(box.points)
        assert all(measured[point] for point in inside)
    served = {point for box in found for point in box.points}
    assert served == {point for point, serves in measured.items() if serves}


@given(st.dictionaries(st.tuples(SIZE), st.booleans(), max_size=8))
def test_with_one_feature_ranges_are_steps_between_neighbours(measured: dict[Sizes, bool]) -> None:
    order = sorted(measured)
    for box in spans(measured):
        assert len(box.points) == 1 or order.index(box.points[1]) == order.index(box.points[0]) + 1
        assert all(measured[point] for point in box.points)
