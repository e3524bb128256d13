"""The worker's side of lent memory: buffers of a request, mapped or opened for as long as a target uses them."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kernelmill.evaluator.dtypes import view
from kernelmill.evaluator.protocol import Bind, Burst, Strided, TensorSlot

if TYPE_CHECKING:
    import torch


class Buffers:
    """Every buffer of one request as bytes."""

    def __init__(self, request: Bind | Burst, fds: Sequence[int], device: str, before: Buffers | None = None) -> None:
        """`before`: the buffers that these replace. What both name stays open, which saves most of the time."""
        self._opened: dict[str, int] = {}
        self._raw: list[torch.Tensor] = []
        left = iter(fds)
        for size, writable, handle in zip(request.sizes, request.writable, request.handles, strict=True):
            self._raw.append(
                self._open(handle, size, device, before) if handle else _mapped(next(left), size, writable)
            )

    def _open(self, handle: str, size: int, device: str, before: Buffers | None) -> torch.Tensor:
        from kernelmill.evaluator import driver

        kept = before._opened.pop(handle, None) if before else None
        self._opened[handle] = driver.open_handle(handle) if kept is None else kept
        return driver.bytes_at(self._opened[handle], size, device)

    def tensor(self, slot: TensorSlot) -> torch.Tensor:
        return view(self._raw[slot.buffer], slot.offset, slot.shape, slot.dtype)

    def strided(self, place: Strided, slots: int) -> Iterator[torch.Tensor]:
        """The tensor of each slot in turn."""
        for slot in range(slots):
            offset = place.offset + slot % place.copies * place.stride
            yield view(self._raw[place.buffer], offset, place.shape, place.dtype)

    def close(self) -> None:
        """For when no call uses them any more."""
        if self._opened:
            from kernelmill.evaluator import driver

            for pointer in self._opened.values():
                driver.close_handle(pointer)
        self._opened, self._raw = {}, []


def _mapped(fd: int, size: int, writable: bool) -> torch.Tensor:
    import torch

    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    memory = mmap.mmap(fd, size, mmap.MAP_SHARED | mmap.MAP_POPULATE, protection)
    os.close(fd)
    return torch.frombuffer(memory, dtype=torch.uint8)
