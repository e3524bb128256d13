"""Where each call's tensors lie in lent memory, and how that memory is poisoned and guarded.

Three buffers a workload: static inputs and captured tensors (read-only, one copy), dynamic inputs (read-only, several
slots so that addresses rotate), and for each worker its own outputs (writable, several slots). Every output lies
between guard bands, which a worker that keeps to its shapes never touches.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kernelmill.evaluator.case import Case, Tensor
from kernelmill.evaluator.devices import Device
from kernelmill.evaluator.memory import PAGE, Buffer, page_up
from kernelmill.evaluator.protocol import Bind, TensorSlot

if TYPE_CHECKING:
    import torch

MAX_SLOTS = 4
LINE = 64
Words = npt.NDArray[np.uint64]
PEEKS = 64
"""How many words of each output are looked at in the moment between "done" and the freeze."""


class Placement:
    """Offsets of some tensors within one slot, and of the slots within a buffer."""

    def __init__(self, tensors: Sequence[Tensor], slots: int) -> None:
        self.tensors = list(tensors)
        self.slots = slots
        self._offsets: list[dict[str, int]] = []
        cursor = PAGE
        for _ in range(slots):
            offsets = {}
            for tensor in tensors:
                cursor += LINE * secrets.randbelow(PAGE // LINE // 2)
                offsets[tensor.name] = cursor
                cursor = page_up(cursor + tensor.size_bytes) + PAGE
            self._offsets.append(offsets)
        self.size = cursor + PAGE

    def offset(self, slot: int, name: str) -> int:
        return self._offsets[slot][name]


class InputMemory:
    """The read-only buffers of one workload, lent to every worker of the sitting."""

    def __init__(self, fixed: Sequence[Tensor], dynamic: Sequence[Tensor], slots: int) -> None:
        self.fixed = Placement(fixed, 1)
        self.dynamic = Placement(dynamic, slots)
        self.fixed_buffer = Buffer(self.fixed.size, writable=False)
        self.dynamic_buffer = Buffer(self.dynamic.size, writable=False)

    def fixed_tensor(self, tensor: Tensor) -> torch.Tensor:
        return self.fixed_buffer.tensor(self.fixed.offset(0, tensor.name), tensor.shape, tensor.dtype)

    def dynamic_tensor(self, slot: int, tensor: Tensor) -> torch.Tensor:
        return self.dynamic_buffer.tensor(self.dynamic.offset(slot, tensor.name), tensor.shape, tensor.dtype)

    def close(self) -> None:
        self.fixed_buffer.close()
        self.dynamic_buffer.close()


class Scratch:
    """One buffer with one copy of some tensors: what the reference reads from or writes to."""

    def __init__(self, tensors: Sequence[Tensor], device: Device, *, writable: bool) -> None:
        self.placement = Placement(tensors, 1)
        self.buffer = device.lend(self.placement.size, writable=writable)

    def tensor(self, tensor: Tensor) -> torch.Tensor:
        return self.buffer.tensor(self.placement.offset(0, tensor.name), tensor.shape, tensor.dtype)

    def slot(self, tensor: Tensor, buffer: int) -> TensorSlot:
        return TensorSlot(buffer, self.placement.offset(0, tensor.name), tensor.shape, tensor.dtype)

    def scrub(self) -> None:
        self.buffer.raw.zero_()


class OutputMemory:
    """One worker's writable buffer: its outputs and the inputs it updates in place."""

    def __init__(self, outputs: Sequence[Tensor], updated: Sequence[Tensor], slots: int) -> None:
        self.placement = Placement([*outputs, *updated], slots)
        self.buffer = Buffer(self.placement.size, writable=True)
        guard = np.frombuffer(os.urandom(PAGE), dtype=np.uint8)
        self._tile = np.tile(guard, 3)
        self.buffer.bytes.reshape(-1, PAGE)[:] = guard
        self._poison = np.zeros(1, dtype=np.uint64)
        self._words = [[self._words_of(slot, tensor) for tensor in outputs] for slot in range(slots)]
        self._sites = [[_sites(len(words)) for words in row] for row in self._words]

    def tensor(self, slot: int, tensor: Tensor) -> torch.Tensor:
        return self.buffer.tensor(self.placement.offset(slot, tensor.name), tensor.shape, tensor.dtype)

    def _words_of(self, slot: int, tensor: Tensor) -> Words:
        offset = self.placement.offset(slot, tensor.name)
        return self.buffer.bytes[offset : offset + tensor.size_bytes // 8 * 8].view(np.uint64)

    def poison(self, slot: int) -> None:
        """Fill this slot's outputs with a pattern never used before."""
        self._poison = np.frombuffer(os.urandom(8), dtype=np.uint64)
        for words in self._words[slot]:
            words[:] = self._poison

    def peek(self, slot: int) -> list[Words]:
        """What a few secretly placed words of each output hold now: a look that takes microseconds."""
        return [words[sites] for words, sites in zip(self._words[slot], self._sites[slot], strict=True)]

    def changed_since(self, slot: int, peeked: list[Words]) -> bool:
        """Whether any of those words is another one now: somebody went on writing."""
        return any(not np.array_equal(old, new) for old, new in zip(peeked, self.peek(slot), strict=True))

    def unwritten(self, slot: int) -> int:
        """How many 8-byte words of the outputs were never written."""
        return sum(int((words == self._poison).sum()) for words in self._words[slot])

    def guards_intact(self, slot: int) -> bool:
        """Whether the memory on either side of each tensor, half a page at least, is as the judge left it."""
        for tensor in self.placement.tensors:
            start = self.placement.offset(slot, tensor.name)
            end = start + tensor.size_bytes
            if not (self._intact(start - PAGE, start) and self._intact(end, page_up(end) + PAGE // 2)):
                return False
        return True

    def _intact(self, start: int, end: int) -> bool:
        phase = start % PAGE
        return bool(np.array_equal(self.buffer.bytes[start:end], self._tile[phase : phase + end - start]))

    def close(self) -> None:
        self.buffer.close()


def _sites(count: int) -> npt.NDArray[np.int64]:
    """Where to peek: the last word, where a late writer is latest, and a secret sample of the others."""
    if count == 0:
        return np.zeros(0, dtype=np.int64)
    return np.array([count - 1, *(secrets.randbelow(count) for _ in range(min(PEEKS, count)))], dtype=np.int64)


def slots_for(case: Case, l2_bytes: int) -> int:
    """Enough slots that a rotation walks over more than twice the L2, within reason."""
    size = sum(tensor.size_bytes for tensor in (*case.tensors, *case.outputs))
    return max(2, min(MAX_SLOTS, -(-2 * l2_bytes // max(1, size))))


def bind_request(
    target: int, case: Case, inputs: InputMemory, outputs: OutputMemory, *, passed: bool
) -> tuple[Bind, list[int]]:
    """The message and descriptors that lend this memory to a worker's target.

    `passed`: outputs are arguments, and an in-place one is its input's argument. Else the callable returns all of them,
    in-place ones included, and they are stored where they belong.
    """
    stored = case.passed_outputs if passed else case.stored_outputs
    fixed = {tensor.name for tensor in inputs.fixed.tensors}
    own = {tensor.name for tensor in outputs.placement.tensors}

    def place(slot: int, tensor: Tensor) -> TensorSlot:
        if tensor.name in own:
            return TensorSlot(2, outputs.placement.offset(slot, tensor.name), tensor.shape, tensor.dtype)
        if tensor.name in fixed:
            return TensorSlot(0, inputs.fixed.offset(0, tensor.name), tensor.shape, tensor.dtype)
        return TensorSlot(1, inputs.dynamic.offset(slot, tensor.name), tensor.shape, tensor.dtype)

    slots = range(outputs.placement.slots)
    buffers = (inputs.fixed_buffer, inputs.dynamic_buffer, outputs.buffer)
    request = Bind(
        target,
        tuple(buffer.size for buffer in buffers),
        tuple(buffer.writable for buffer in buffers),
        tuple(buffer.handle for buffer in buffers),
        tuple(tuple(place(s, a) if isinstance(a, Tensor) else a for a in case.inputs) for s in slots),
        tuple(tuple(place(s, tensor) for tensor in stored) for s in slots),
    )
    return request, [buffer.fd for buffer in buffers]
