"""What an agent tells of a kernel's making is read again as it was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelmill.agents.making import Making

WORDS = st.text(st.characters(exclude_characters=";", exclude_categories=["C", "Z"]), min_size=1, max_size=40)
NUMBERS = st.integers(0, 10**12).map(float) | st.floats(0, 1e6).map(lambda number: float(f"{number:.6g}"))


@given(st.builds(Making, WORDS, WORDS, WORDS, NUMBERS, NUMBERS, NUMBERS), st.text(max_size=40))
def test_what_is_written_is_read(making: Making, before: str) -> None:
    assert Making.read(f"{before}. {making.words()}") == making


@pytest.mark.parametrize(
    "text",
    [None, "", "A tiled kernel.", "kernelmill agent 1; strategy s; model m; evaluations 1; tokens x; cost 1 USD"],
)
def test_other_words_say_nothing(text: str | None) -> None:
    assert Making.read(text) is None
