"""From recorded requests to steps with page tables: the allocator's laws, the replay, the choice of steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelmill.dataset.derive.engine import Engine, Step, replay
from kernelmill.dataset.derive.moments import Size, captured_moment, moments, sizes, strata
from kernelmill.dataset.derive.pages import PagePool, PoolExhausted, Sequence
from kernelmill.dataset.derive.traffic import Capture, Request, azure_requests, sglang_captures
from kernelmill.trace_schema.errors import DatasetError

ACTIONS = st.lists(st.tuples(st.integers(0, 5), st.integers(-1, 9)), max_size=60)
"""(which sequence, tokens to grow by; -1 to leave)."""
REQUESTS = st.lists(
    st.builds(Request, st.floats(0, 20), st.integers(1, 900), st.integers(1, 12)), min_size=1, max_size=12
).map(lambda found: sorted(found, key=lambda request: request.arrival_s))


@given(ACTIONS, st.integers(1, 5))
def test_no_page_has_two_owners_and_none_is_lost(actions: list[tuple[int, int]], page_size: int) -> None:
    pool = PagePool(capacity=24, page_size=page_size)
    sequences = [Sequence(pool) for _ in range(6)]
    for which, tokens in actions:
        if tokens < 0:
            sequences[which].leave()
        elif pool.pages_for(sequences[which].tokens + tokens) - len(sequences[which].pages) <= pool.free_pages:
            sequences[which].grow(tokens)
        owned = [page for sequence in sequences for page in sequence.pages]
        assert len(owned) == len(set(owned))
        assert all(0 <= page < pool.high_water <= pool.capacity for page in owned)
        assert pool.free_pages == pool.capacity - len(owned)
        assert all(len(one.pages) == pool.pages_for(one.tokens) for one in sequences)


def test_a_full_pool_refuses_and_keeps_what_it_had() -> None:
    pool = PagePool(capacity=3, page_size=16)
    kept = pool.allocate(2)
    with pytest.raises(PoolExhausted, match="2 pages asked, 1 of 3 free"):
        pool.allocate(2)
    assert pool.free_pages == 1 and kept == [0, 1]


def test_freed_pages_are_used_before_fresh_ones() -> None:
    pool = PagePool(capacity=9)
    pool.release(pool.allocate(3))
    assert pool.allocate(4) == [2, 1, 0, 3]


def test_sequences_that_decode_together_have_interleaved_pages() -> None:
    pool = PagePool(capacity=8)
    both = [Sequence(pool), Sequence(pool)]
    for _ in range(3):
        for sequence in both:
            sequence.grow(1)
    assert [one.pages for one in both] == [[0, 2, 4], [1, 3, 5]]


def steps_of(requests: list[Request], engine: Engine) -> list[Step]:
    return list(replay(requests, engine))


@given(REQUESTS)
def test_a_replay_computes_every_token_of_every_request_once(requests: list[Request]) -> None:
    engine = Engine(pool_tokens=1000, prefill_tokens=256, context_tokens=910)
    served = [request for request in requests if request.prompt + request.output <= engine.context_tokens]
    steps = steps_of(requests, engine)
    assert sum(step.tokens for step in steps if step.prefill) == sum(request.prompt for request in served)
    assert sum(step.tokens for step in steps if not step.prefill) == sum(request.output - 1 for request in served)
    assert sum(step.sampled for step in steps) == sum(request.output for request in served)
    for step in steps:
        assert step.tokens <= engine.prefill_tokens or not step.prefill
        assert sum(step.kv) <= step.high_water <= engine.pool_tokens
        assert all(1 <= new <= kv for new, kv in zip(step.new, step.kv, strict=True))


def test_page_tables_are_live_and_hold_as_many_pages_as_tokens() -> None:
    for step in replay([Request(0.0, 700, 5), Request(0.0, 90, 9)], Engine()):
        assert [len(active.sequence.pages) for active in step.active] == list(step.kv)


def test_a_long_prompt_is_computed_in_chunks() -> None:
    steps = steps_of([Request(0.0, 1200, 1)], Engine(prefill_tokens=512))
    assert [(step.new, step.kv, step.sampled) for step in steps] == [
        ((512,), (512,), 0),
        ((512,), (1024,), 0),
        ((176,), (1200,), 1),
    ]


def test_a_request_waits_until_its_whole_length_fits() -> None:
    steps = steps_of([Request(0.0, 600, 2), Request(0.0, 600, 2)], Engine(pool_tokens=1000))
    assert max(len(step.kv) for step in steps) == 1


def size(index: int, tokens: int) -> Size:
    return Size(1, index, False, tokens, tokens, tokens, tokens)


def test_strata_stand_for_the_whole_population() -> None:
    population = [size(i, tokens) for i, tokens in enumerate([5, 1, 9, 3, 7, 8, 2, 6, 4, 10])]
    chosen = strata(population, lambda one: one.tokens, 5)
    assert [(one.tokens, steps) for one, steps in chosen] == [(2, 2), (4, 2), (6, 2), (8, 2), (10, 2)]


def test_strata_of_equal_size_become_one() -> None:
    chosen = strata([size(i, min(i, 3)) for i in range(10)], lambda one: one.tokens, 5)
    assert [(one.tokens, steps) for one, steps in chosen] == [(1, 2), (3, 8)]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.integers(1, 9))
def test_strata_keep_every_step(tokens: list[int], count: int) -> None:
    chosen = strata([size(i, one) for i, one in enumerate(tokens)], lambda one: one.tokens, min(count, len(tokens)))
    assert sum(steps for _, steps in chosen) == len(tokens)


def test_a_step_may_stand_for_two_strata() -> None:
    requests = [Request(0.0, 40, 4)] * 12
    size = next(one for one in sizes(requests) if not one.prefill)
    first, second = moments(requests, [(size, 3), (size, 5)], "trace")
    assert (first.steps, second.steps) == (3, 5)
    assert first.kv == second.kv and [len(table) for table in first.tables] == list(first.kv)
    assert first.provenance["phase"] == "decode"


def test_a_captured_step_keeps_its_lengths() -> None:
    moment = captured_moment(Capture("one", (5, 9, 3, 7)), 1, 2, 128)
    assert moment.kv == (9, 7) and moment.num_pages == 16
    owned = [page for table in moment.tables for page in table]
    assert sorted(owned) == list(range(16)) and [len(table) for table in moment.tables] == [9, 7]
    assert moment.tables[0] != tuple(range(9)), "sequences that decoded together must be interleaved"


def test_azure_rows_become_requests(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:50.9951690,396,109\n"
        "2023-11-16 18:15:46.4951690,374,44\n"
    )
    assert azure_requests(file) == [Request(0.0, 374, 44), Request(4.5, 396, 109)]


def test_a_file_that_is_no_trace_is_named(tmp_path: Path) -> None:
    file = tmp_path / "other.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(DatasetError, match=r"other\.csv: not an Azure LLM inference trace"):
        azure_requests(file)
    with pytest.raises(DatasetError, match="no decode_paged_"):
        sglang_captures(tmp_path)
