"""The counting's laws: no call is lost, memory is bounded, and what is kept is a fair sample."""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kernelmill.apply.tracing.strata import Entry, Strata, rounded

KEYS = st.integers(0, 3).flatmap(lambda width: st.tuples(*[st.integers(0, 1 << 40)] * width))


@given(KEYS, st.integers(1, 12))
def test_rounding_forgets_more_at_each_level_and_all_at_last(key: tuple[int, ...], level: int) -> None:
    assert rounded(key, 0) == key
    assert rounded(key, 40) == (0,) * len(key)
    if level < 5:
        assert rounded(rounded(key, level), level + 1) == rounded(key, level + 1)
        assert all(
            coarse <= size < coarse * 2 or size == 0 for size, coarse in zip(key, rounded(key, level), strict=True)
        )


@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 1 << 20)), max_size=400), st.integers(1, 20))
def test_every_call_is_counted_once_and_entries_are_few(keys: list[tuple[int, int]], most: int) -> None:
    strata = Strata(most, 1)
    for key in keys:
        next(strata.find(key).calls)
    entries = [entry for _, entry in strata.items()]
    assert sum(entry.total() for entry in entries) == len(keys)
    assert sum(entry.total() for entry in entries) == len(keys), "asking changes nothing"
    assert len(entries) <= 13 * most
    exact = Counter[tuple[int, ...]](keys)
    assert all(
        entry.total() == exact[key]
        for key, entry in strata.items()
        if strata.exact.get(key) is entry and len(exact) <= most
    )


def test_calls_of_several_threads_are_all_counted() -> None:
    strata, threads, each = Strata(4, 1), 4, 5000

    def work(seed: int) -> None:
        drawn = random.Random(seed)
        for _ in range(each):
            next(strata.find((drawn.randrange(1, 50),)).calls)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        working = [threading.Thread(target=work, args=(seed,)) for seed in range(threads)]
        for thread in working:
            thread.start()
        for thread in working:
            thread.join(60)
    finally:
        sys.setswitchinterval(before)
    assert sum(entry.total() for _, entry in strata.items()) == threads * each


def test_each_call_is_kept_with_the_same_chance() -> None:
    random.seed(1)
    calls, keep, runs, kept = 30, 4, 3000, Counter[int]()
    for _ in range(runs):
        entry = Entry(keep)
        for _ in range(calls):
            number = next(entry.calls)
            if number >= entry.due:
                entry.samples[entry.place(number)] = number
        assert len(set(entry.samples)) == keep
        kept.update(entry.samples)
    expected = runs * keep / calls
    assert all(abs(kept[number] - expected) < 5 * expected**0.5 for number in range(calls)), kept
