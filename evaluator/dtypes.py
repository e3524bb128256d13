"""Element types of the schema: their size, and their name in torch. No torch is imported here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernelmill.trace_schema.errors import KernelMillError

if TYPE_CHECKING:
    import torch

ITEM_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "bool": 1,
}
"""float64 is not a type of the schema: the judge uses it for exact reference values."""

UNIT_ROUNDOFF = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-4,
    "float8_e5m2": 2.0**-3,
}
"""Half the distance from 1.0 to the next value, for floating types."""


class UnsupportedDType(KernelMillError):
    """A type that this evaluator cannot place in memory."""


def item_bytes(name: str) -> int:
    if name not in ITEM_BYTES:
        raise UnsupportedDType(f"dtype {name!r} cannot be evaluated here; supported: {', '.join(ITEM_BYTES)}")
    return ITEM_BYTES[name]


def torch_dtype(name: str) -> torch.dtype:
    import torch

    item_bytes(name)
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def view(raw: torch.Tensor, offset: int, shape: Sequence[int], dtype: str) -> torch.Tensor:
    """The tensor that lies at `offset` of some bytes; nothing is copied."""
    import torch

    size = item_bytes(dtype) * math.prod(shape)
    if size == 0:
        return torch.empty(tuple(shape), dtype=torch_dtype(dtype), device=raw.device)
    return raw[offset : offset + size].view(torch_dtype(dtype)).view(tuple(shape))
