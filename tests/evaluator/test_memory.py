"""Lent memory: what the judge may do with it and a worker may not."""

from __future__ import annotations

import itertools
import mmap
import os

import pytest
import torch

from kernelmill.evaluator.case import Tensor
from kernelmill.evaluator.layout import InputMemory, OutputMemory, Placement
from kernelmill.evaluator.memory import PAGE, Buffer

OUT = Tensor("out", (5, 7), "float32", "output")
STATE = Tensor("state", (3,), "int32", "inout")


def test_nobody_can_change_the_size() -> None:
    buffer = Buffer(10, writable=True)
    for size in (0, 1 << 20):
        with pytest.raises(PermissionError):
            os.ftruncate(buffer.fd, size)
    buffer.close()


def test_inputs_can_be_written_through_the_judges_mapping_only() -> None:
    buffer = Buffer(PAGE, writable=False)
    with pytest.raises(PermissionError):
        mmap.mmap(buffer.fd, PAGE)
    with pytest.raises(PermissionError):
        os.pwrite(buffer.fd, b"x", 0)
    reader = mmap.mmap(buffer.fd, PAGE, mmap.MAP_SHARED, mmap.PROT_READ)
    buffer.bytes[3] = 42
    assert reader[3] == 42
    reader.close()


@pytest.mark.parametrize(("shape", "dtype"), [((2, 3), "bfloat16"), ((), "int64"), ((0, 4), "float32"), ((3,), "bool")])
def test_tensors_are_views_of_the_buffer(shape: tuple[int, ...], dtype: str) -> None:
    buffer = Buffer(PAGE, writable=True)
    view = buffer.tensor(64, shape, dtype)
    assert (tuple(view.shape), str(view.dtype)) == (shape, f"torch.{dtype}")
    view.fill_(1)
    assert bool(buffer.bytes[64:].any()) == bool(view.numel())


def memory() -> OutputMemory:
    made = OutputMemory([OUT], [STATE], 2)
    made.poison(1)
    return made


def test_poison_tells_what_was_never_written() -> None:
    lent = memory()
    assert lent.unwritten(1) == 17  # 5 * 7 floats are 17 words of 8 bytes and a half
    lent.tensor(1, OUT).fill_(0)
    assert lent.unwritten(1) == 0


def test_a_peek_tells_whether_somebody_goes_on_writing() -> None:
    lent = memory()
    lent.tensor(1, OUT).fill_(1)
    peeked = lent.peek(1)
    assert not lent.changed_since(1, peeked)
    lent.tensor(1, OUT).fill_(2)
    assert lent.changed_since(1, peeked)


def test_poison_is_new_each_time() -> None:
    lent = memory()
    first = lent.tensor(1, OUT).clone()
    lent.poison(1)
    assert not torch.equal(first.view(torch.int32), lent.tensor(1, OUT).view(torch.int32))


@pytest.mark.parametrize("distance", [-1, -PAGE, 0, PAGE // 4])
@pytest.mark.parametrize("tensor", [OUT, STATE], ids=lambda tensor: tensor.name)
def test_a_byte_written_beside_a_tensor_is_seen(tensor: Tensor, distance: int) -> None:
    lent = memory()
    assert lent.guards_intact(1)
    start = lent.placement.offset(1, tensor.name)
    place = start + distance if distance < 0 else start + tensor.size_bytes + distance
    lent.buffer.bytes[place] ^= 1
    assert not lent.guards_intact(1)


def test_slots_lie_apart_and_inputs_rotate() -> None:
    placement = Placement([OUT, STATE], 3)
    offsets = sorted((placement.offset(s, t.name), t.size_bytes) for s in range(3) for t in (OUT, STATE))
    for (start, size), (following, _) in itertools.pairwise(offsets):
        assert start + size + PAGE <= following
    inputs = InputMemory([], [OUT], 2)
    inputs.dynamic_tensor(0, OUT).fill_(1)
    inputs.dynamic_tensor(1, OUT).fill_(2)
    assert float(inputs.dynamic_tensor(0, OUT).sum()) == 35
    inputs.close()
