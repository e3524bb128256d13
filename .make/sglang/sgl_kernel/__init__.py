"""Stands in for SGLang's kernels, of which PyPI has no CPU build: it can be imported, and any use of it fails.

SGLang takes torch's own ops on a CPU without AMX, so nothing here is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__version__ = "0.4.10"


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"sgl_kernel.{name}: this host has no CPU build of SGLang's kernels")

    return missing
