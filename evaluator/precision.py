"""Run a reference in float64, whatever precision its source names.

A reference says `x.to(torch.float32)`; under this mode it gets float64, so that what comes out is the value itself and
not one rounding of it. Integer and boolean types are untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

NARROW = (torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
CASTS = {torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16}


def _wide(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return torch.float64 if value in NARROW else value
    if isinstance(value, tuple | list):
        return type(value)(_wide(item) for item in value)
    return value


class Float64(TorchFunctionMode):
    """Within this mode every request for a narrower floating type is answered with float64."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in CASTS:
            return args[0].double()
        if func is torch.Tensor.view:  # the bits of another type, not a conversion to it
            return func(*args, **(kwargs or {}))
        wide = {name: _wide(value) for name, value in (kwargs or {}).items()}
        return func(*(_wide(arg) for arg in args), **wide)


def widen(value: Any) -> Any:
    """An argument as float64 if it is a floating tensor."""
    if isinstance(value, torch.Tensor) and value.dtype in NARROW:
        return value.to(torch.float64)
    return value
