"""The scheduler's laws over whole replays: budget, order, nobody starves, what is preempted is computed again."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given

from kernelmill.dataset.derive.blocks import BlockPool
from kernelmill.dataset.derive.deployment import H200, Deployment, find_model
from kernelmill.dataset.derive.replay import Replay, replay
from kernelmill.dataset.derive.request import Request
from kernelmill.dataset.derive.scheduler import Limits, Scheduler
from kernelmill.trace_schema.errors import DatasetError
from tests.dataset.derive.traffic import REQUESTS, small


def tokens(found: Replay) -> int:
    return sum(int(step.new.sum()) for step in found.steps)


@given(REQUESTS)
def test_every_request_is_served_within_the_budget(requests: list[Request]) -> None:
    found = replay(requests, small())
    assert sorted(number for number, _, _ in found.finished) == list(range(len(requests)))
    assert sum(step.sampled for step in found.steps) == sum(request.output for request in requests)
    for step in found.steps:
        assert 1 <= step.new.sum() <= 128 and len(step.new) <= 8
        assert (step.new >= 1).all() and (step.new <= step.kv).all()
        assert len(set(step.admissions.tolist())) == len(step.admissions)
    assert [a.start_s < b.start_s for a, b in pairwise(found.steps)] == [True] * (len(found.steps) - 1)


@given(REQUESTS)
def test_without_sharing_or_preemption_each_token_is_computed_once(requests: list[Request]) -> None:
    plain = [Request(one.arrival_s, one.prompt, one.output) for one in requests]
    found = replay(plain, small(pool=10_000))
    assert found.preemptions == 0
    assert tokens(found) == sum(one.prompt + one.output - 1 for one in plain)


@given(REQUESTS)
def test_sharing_saves_work_and_changes_no_answer(requests: list[Request]) -> None:
    plain = [Request(one.arrival_s, one.prompt, one.output) for one in requests]
    shared, alone = replay(requests, small(pool=10_000)), replay(plain, small(pool=10_000))
    assert tokens(shared) <= tokens(alone)
    assert sum(step.sampled for step in shared.steps) == sum(step.sampled for step in alone.steps)


@given(REQUESTS)
def test_sequences_of_one_step_share_blocks_only_where_their_tokens_are_equal(requests: list[Request]) -> None:
    plain = [Request(one.arrival_s, one.prompt, one.output) for one in requests]
    found = replay(plain, small())
    for step in found.steps:
        used = [
            block
            for who, seen in zip(step.admissions.tolist(), step.kv.tolist(), strict=True)
            for block in found.pages(who, seen)
        ]
        assert len(used) == len(set(used)) and 0 not in used
        assert len(used) == sum(-(-seen // 16) for seen in step.kv.tolist()) <= 40


def test_a_shared_prompt_has_one_set_of_pages() -> None:
    prompt = ((256, "tools"),)
    found = replay([Request(0.0, 300, 40, prompt), Request(0.02, 300, 40, prompt)], small(step_tokens=512))
    both = next(step for step in found.steps if len(step.new) == 2 and (step.new == 1).all())
    first, second = (found.pages(int(who), 300) for who in both.admissions)
    assert first[:16] == second[:16] and not set(first[16:]) & set(second[16:])
    assert tokens(found) == 2 * (300 + 39) - 256


def test_who_came_last_is_preempted_and_computed_again() -> None:
    requests = [Request(0.0, 100, 200), Request(0.0, 100, 200)]
    found = replay(requests, small(pool=320, whole_prompt_must_fit=False))
    assert found.preemptions >= 1
    assert tokens(found) > sum(one.prompt + one.output - 1 for one in requests)
    first, second = sorted(found.finished)
    assert first[2] < second[2]
    assert sum(step.sampled for step in found.steps) == 400, "a preempted request keeps what it has sampled"


@given(REQUESTS)
def test_a_step_that_preempts_admits_nobody_and_the_last_come_is_first_in_line(requests: list[Request]) -> None:
    scheduler = Scheduler(BlockPool(40), Limits(step_tokens=128, requests=8))
    for number, request in enumerate(requests):
        assert scheduler.add(number, request)
    while chosen := scheduler.step():
        if scheduler.preempted:
            assert not scheduler.admitted
            victims = [served for served, _ in scheduler.preempted]
            assert list(scheduler.waiting)[: len(victims)] == victims[::-1]
            assert all(served.computed == 0 and not served.blocks for served in victims)
        scheduler.complete(chosen)
    assert not scheduler.waiting and not scheduler.running and scheduler.pool.free_blocks == 40


def test_first_come_first_served() -> None:
    found = replay([Request(0.0, 500, 3), Request(0.0, 10, 3), Request(0.0, 10, 3)], small())
    firsts = [first for _, first, _ in sorted(found.finished)]
    assert firsts == sorted(firsts)


def test_a_long_prompt_is_computed_in_chunks_beside_those_that_decode() -> None:
    found = replay([Request(0.0, 20, 9), Request(0.001, 300, 1)], small())
    mixed = [step.new.tolist() for step in found.steps if len(step.new) == 2]
    assert mixed == [[1, 127], [1, 127], [1, 46]]


def test_a_whole_prompt_must_fit_before_it_is_admitted() -> None:
    requests = [Request(0.0, 400, 30), Request(0.0, 300, 2)]
    assert max(len(step.new) for step in replay(requests, small()).steps) == 1
    assert max(len(step.new) for step in replay(requests, small(whole_prompt_must_fit=False)).steps) == 2


def test_a_turn_waits_for_the_one_before_it_and_for_its_reader() -> None:
    requests = [Request(0.0, 100, 5, ((100, "one"),)), Request(3.0, 160, 5, ((96, "one"), (160, "two")), after=0)]
    found = replay(requests, small())
    (_, _, ended), (_, started, _) = sorted(found.finished)
    assert started >= ended + 3.0
    assert tokens(found) == 100 + 4 + (160 - 96) + 4, "its prefix is still in the pool"


def test_what_never_fits_is_refused_and_counted() -> None:
    found = replay([Request(0.0, 2000, 5), Request(0.0, 10, 1)], small())
    assert found.refused == 1 and [number for number, _, _ in found.finished] == [1]


def test_a_replay_may_end_before_its_requests() -> None:
    found = replay([Request(0.0, 100, 300)], small(), until_s=0.1)
    assert not found.finished and found.steps[-1].start_s < 0.1
    last = found.steps[-1]
    assert len(found.pages(int(last.admissions[0]), int(last.kv[0]))) == -(-int(last.kv[0]) // 16)


def test_recurrent_states_of_one_step_have_slots_of_their_own() -> None:
    found = replay([Request(0.01 * at, 60, 30) for at in range(20)], small())
    for step in found.steps:
        slots = [found.slots[who] for who in step.admissions]
        assert len(set(slots)) == len(slots) and max(slots) < 8


@given(REQUESTS)
def test_equal_input_gives_equal_steps(requests: list[Request]) -> None:
    once, again = replay(requests, small()), replay(requests, small())
    assert once.tables == again.tables
    for a, b in zip(once.steps, again.steps, strict=True):
        assert a.start_s == b.start_s and np.array_equal(a.kv, b.kv) and np.array_equal(a.new, b.new)


def test_the_pool_is_what_memory_leaves_beside_the_weights() -> None:
    one = Deployment(find_model("llama-3.1-8b"), H200)
    assert one.pool_tokens == pytest.approx((141e9 * 0.9 - 8.03e9 * 2 * 1.02) / 131_072, rel=1e-3)
    with pytest.raises(DatasetError, match="deepseek-v3 on 1 x NVIDIA H200 leaves no room"):
        _ = Deployment(find_model("deepseek-v3"), H200).pool_tokens
    with pytest.raises(DatasetError, match=r"no model 'gpt-9' can be deployed; choose from llama-3\.1-8b"):
        find_model("gpt-9")


def test_a_step_costs_more_with_more_to_read_or_to_compute() -> None:
    for name, tp in (("llama-3.1-8b", 1), ("deepseek-v3", 8), ("qwen3-30b-a3b", 2)):
        one = Deployment(find_model(name), H200, tp)
        assert one.seconds(1, 1000, 1000) < one.seconds(1, 10**6, 10**6) < one.seconds(8192, 10**6, 10**9)
