"""KernelMill: a trace-schema benchmark suite and kernel leaderboard for LLM inference kernels.

The nouns are imported when first asked for, so that `import kernelmill` costs nothing.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelmill.dataset import Dataset as Dataset
    from kernelmill.trace_schema import Definition as Definition
    from kernelmill.trace_schema import Solution as Solution
    from kernelmill.trace_schema import Trace as Trace
    from kernelmill.trace_schema import Workload as Workload

__version__ = "0.1.0"
__all__ = ["Dataset", "Definition", "Solution", "Trace", "Workload"]

_HOME = {
    "Dataset": "kernelmill.dataset",
    "Definition": "kernelmill.trace_schema",
    "Solution": "kernelmill.trace_schema",
    "Trace": "kernelmill.trace_schema",
    "Workload": "kernelmill.trace_schema",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'kernelmill' has no attribute {name!r}; it offers {', '.join(__all__)}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if any(os.environ.get(f"{prefix}_ENABLE_{what}") for prefix in ("KERNELMILL", "FIB") for what in ("APPLY", "TRACING")):
    import_module("kernelmill.apply.arming.hooks").arm_if_wanted()
