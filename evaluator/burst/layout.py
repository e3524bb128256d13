"""Where the tensors of a burst's slots lie: each argument is a row of copies at equal distances, guarded after each."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernelmill.evaluator.case import Tensor
from kernelmill.evaluator.devices import Device, Lent
from kernelmill.evaluator.dtypes import item_bytes, torch_dtype
from kernelmill.evaluator.protocol import Strided

if TYPE_CHECKING:
    import torch

ALIGNMENT = 512
GUARD = 1024
"""Bytes at least that lie between any two tensors, and are watched."""


class Row(NamedTuple):
    """One argument in every slot."""

    tensor: Tensor
    offset: int
    stride: int
    copies: int

    @property
    def end(self) -> int:
        return self.offset + self.copies * self.stride


class Layout:
    """Rows of some tensors in one buffer."""

    def __init__(self, tensors: Sequence[Tensor], copies: Mapping[str, int]) -> None:
        self.rows: dict[str, Row] = {}
        cursor = 0
        for tensor in tensors:
            stride = _up(tensor.size_bytes + GUARD)
            start = cursor + GUARD + ALIGNMENT * secrets.randbelow(4)
            self.rows[tensor.name] = row = Row(tensor, _up(start), stride, copies[tensor.name])
            cursor = row.end
        self.size = _up(cursor + GUARD) + 4 * ALIGNMENT

    def strided(self, name: str, buffer: int) -> Strided:
        row = self.rows[name]
        return Strided(buffer, row.offset, row.stride, row.copies, row.tensor.shape, row.tensor.dtype)


class Region:
    """A buffer, laid out: tensors of all slots at once as [copies, …], and checks over all slots at once."""

    def __init__(self, device: Device, capacity: int, *, writable: bool) -> None:
        self.buffer: Lent = device.lend(capacity, writable=writable)
        self._raw = self.buffer.raw
        self._guard = _random_bytes(GUARD + ALIGNMENT, self._raw.device)
        self._rows: dict[str, Row] = {}

    def adopt(self, layout: Layout) -> None:
        """Lay it out anew, with fresh guards."""
        self._rows = layout.rows
        for guard in self._guards():
            guard.copy_(self._guard[: guard.shape[-1]].expand_as(guard))

    def _guards(self) -> Iterator[torch.Tensor]:
        """[guards, bytes]: what lies before a row, and behind each of its copies."""
        for row in self._rows.values():
            yield self._raw[row.offset - GUARD : row.offset].view(1, GUARD)
            size = row.tensor.size_bytes
            yield self._raw[row.offset + size :].as_strided((row.copies, row.stride - size), (row.stride, 1))

    def broken_guards(self) -> Iterator[torch.Tensor]:
        """For each row of guards whether one is no longer as the judge left it; nothing is waited for."""
        for guard in self._guards():
            yield (guard != self._guard[: guard.shape[-1]]).any()

    def values(self, name: str) -> torch.Tensor:
        """[copies, *shape], as the tensor's own type."""
        row = self._rows[name]
        part = self._raw[row.offset : row.end].view(torch_dtype(row.tensor.dtype))
        inner = _contiguous(row.tensor.shape)
        return part.as_strided((row.copies, *row.tensor.shape), (row.stride // item_bytes(row.tensor.dtype), *inner))

    def words(self, name: str) -> torch.Tensor:
        """[copies, words]: the bits of each copy in the widest words that fit."""
        row = self._rows[name]
        return words_of(self._raw[row.offset : row.end], row.tensor.size_bytes, row.copies, row.stride)

    def close(self) -> None:
        self._raw = self._raw[:0]
        self.buffer.close()


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def words_of(raw: torch.Tensor, size: int, copies: int, stride: int) -> torch.Tensor:
    """[copies, words] over bytes in which a copy of `size` bytes starts every `stride`."""
    import torch

    width, dtype = next(
        (width, dtype)
        for width, dtype in ((8, torch.int64), (4, torch.int32), (2, torch.int16), (1, torch.uint8))
        if size % width == 0 and stride % width == 0
    )
    whole = raw[: raw.numel() // width * width].view(dtype)
    return whole.as_strided((copies, size // width), (stride // width, 1))


def _up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _random_bytes(count: int, device: torch.device) -> torch.Tensor:
    import torch

    return torch.frombuffer(bytearray(os.urandom(count)), dtype=torch.uint8).to(device)
