"""The five calls of the CUDA driver by which judge and worker share memory. Standard library only.

Every block is an allocation of its own, rounded up to 2 MiB: whoever opens a handle can read the whole of what the
driver allocated around it, so a block out of a pool would show its neighbours.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import torch

GRANULE = 2 << 20
HANDLE_BYTES = 64
LAZY_PEER_ACCESS = 1


class DriverError(Exception):
    """A driver call failed."""


class Handle(ctypes.Structure):
    """CUipcMemHandle."""

    _fields_ = [("reserved", ctypes.c_char * HANDLE_BYTES)]


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _check(what: str, code: int) -> None:
    if code:
        text = ctypes.c_char_p()
        _library().cuGetErrorName(code, ctypes.byref(text))
        raise DriverError(f"{what} failed: {(text.value or b'unknown').decode()} ({code})")


def allocate(size: int) -> int:
    """The address of a new block; the calling thread needs a context (torch makes one)."""
    pointer = ctypes.c_uint64()
    _check(f"allocating {size} bytes", _library().cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)))
    return pointer.value


def free(pointer: int) -> None:
    _check("freeing device memory", _library().cuMemFree_v2(ctypes.c_uint64(pointer)))


def export(pointer: int) -> str:
    """The handle by which another process opens the block."""
    handle = Handle()
    _check("exporting device memory", _library().cuIpcGetMemHandle(ctypes.byref(handle), ctypes.c_uint64(pointer)))
    return bytes(handle).hex()


def open_handle(handle: str) -> int:
    """The address of another process's block. Opening it again gives the same address and counts."""
    pointer = ctypes.c_uint64()
    given = Handle.from_buffer_copy(bytes.fromhex(handle))
    _check("opening device memory", _library().cuIpcOpenMemHandle_v2(ctypes.byref(pointer), given, LAZY_PEER_ACCESS))
    return pointer.value


def close_handle(pointer: int) -> None:
    _check("closing device memory", _library().cuIpcCloseMemHandle(ctypes.c_uint64(pointer)))


def bytes_at(pointer: int, size: int, device: str) -> torch.Tensor:
    """Device memory as a uint8 tensor that owns nothing."""
    import torch

    class View:
        __cuda_array_interface__: ClassVar[dict[str, Any]] = {
            "data": (pointer, False),
            "shape": (size,),
            "typestr": "|u1",
            "strides": None,
            "version": 3,
        }

    return torch.as_tensor(View(), device=device)
