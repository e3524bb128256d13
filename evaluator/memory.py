"""Lent memory on the CPU: sealed anonymous files that the judge owns and a worker may map.

Without the seals a worker's `ftruncate` kills the judge by SIGBUS. Inputs are sealed against every later writable
mapping: the judge goes on writing through the mapping it made first, the worker can only read.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

F_ADD_SEALS = 1033
SEAL_SEAL, SEAL_SHRINK, SEAL_GROW, SEAL_FUTURE_WRITE = 1, 2, 4, 16
PAGE = 4096
Bytes = npt.NDArray[np.uint8]


def page_up(size: int) -> int:
    return -(-size // PAGE) * PAGE


class Buffer:
    """One sealed memfd, mapped by the judge for as long as it lives."""

    handle = ""

    def __init__(self, size: int, *, writable: bool) -> None:
        self.size = max(PAGE, page_up(size))
        self.writable = writable
        self.fd = os.memfd_create("kernelmill", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        os.ftruncate(self.fd, self.size)
        self._map = mmap.mmap(self.fd, self.size, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        seals = SEAL_SHRINK | SEAL_GROW | (0 if writable else SEAL_FUTURE_WRITE)
        fcntl.fcntl(self.fd, F_ADD_SEALS, seals)
        fcntl.fcntl(self.fd, F_ADD_SEALS, SEAL_SEAL)
        self.bytes: Bytes = np.frombuffer(self._map, dtype=np.uint8)

    @property
    def raw(self) -> torch.Tensor:
        import torch

        return torch.from_numpy(self.bytes)

    def tensor(self, offset: int, shape: Sequence[int], dtype: str) -> torch.Tensor:
        """The judge's view of a tensor in this buffer."""
        from kernelmill.evaluator.dtypes import view

        return view(self.raw, offset, shape, dtype)

    def close(self) -> None:
        """Give the descriptor back; the mapping goes when its last view does."""
        os.close(self.fd)
