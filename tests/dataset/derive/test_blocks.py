"""The block allocator's laws: nothing is lost, nothing has an owner too many, what is shared was the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelmill.dataset.derive.blocks import BlockPool, PoolExhausted

ACTIONS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6), st.integers(0, 3)), max_size=50)
"""(which sequence, blocks to grow by or 0 to leave, which of a few prompts it has)."""


@given(ACTIONS)
def test_every_block_is_free_or_owned_by_those_who_hold_it(actions: list[tuple[int, int, int]]) -> None:
    pool, held = BlockPool(16), dict[int, list[int]]()
    for who, count, prompt in actions:
        if count == 0:
            pool.release(held.pop(who, []))
        elif who in held:
            if count <= pool.free_blocks:
                held[who] += pool.allocate(count)
        else:
            found = pool.find((prompt, at) for at in range(count))
            if count - len(found) <= pool.free_blocks - pool.idle(found):
                pool.share(found)
                held[who] = found + pool.allocate(count - len(found))
                for at, block in enumerate(held[who]):
                    pool.name(block, (prompt, at))
        for block in range(1, 17):
            assert pool.owners(block) == sum(block in blocks for blocks in held.values())
        owned = {block for blocks in held.values() for block in blocks}
        assert pool.free_blocks == 16 - len(owned)
        assert all(len(set(blocks)) == len(blocks) and 0 not in blocks for blocks in held.values())


def test_equal_prefixes_share_blocks_until_the_last_owner_leaves() -> None:
    pool = BlockPool(4)
    first = pool.allocate(2)
    for at, block in enumerate(first):
        pool.name(block, ("prompt", at))
    shared = pool.find([("prompt", 0), ("prompt", 1), ("prompt", 2)])
    assert shared == first
    pool.share(shared)
    pool.release(first)
    assert [pool.owners(block) for block in shared] == [1, 1] and pool.free_blocks == 2
    pool.release(shared)
    assert pool.free_blocks == 4


def test_a_free_block_is_found_again_until_it_is_taken_for_something_else() -> None:
    pool = BlockPool(2)
    blocks = pool.allocate(2)
    for at, block in enumerate(blocks):
        pool.name(block, ("prompt", at))
    pool.release(blocks)
    assert pool.find([("prompt", 0), ("prompt", 1)]) == blocks
    (taken,) = pool.allocate(1)
    assert taken == blocks[1], "the tail of a sequence goes first"
    assert pool.find([("prompt", 0), ("prompt", 1)]) == blocks[:1]


def test_a_full_pool_refuses_and_keeps_what_it_had() -> None:
    pool = BlockPool(3)
    kept = pool.allocate(2)
    with pytest.raises(PoolExhausted, match="2 blocks asked, 1 of 3 free"):
        pool.allocate(2)
    assert pool.free_blocks == 1 and kept == [1, 2]


def test_only_a_prefix_is_found() -> None:
    pool = BlockPool(3)
    blocks = pool.allocate(2)
    pool.name(blocks[1], ("prompt", 1))
    assert pool.find([("prompt", 0), ("prompt", 1)]) == []
