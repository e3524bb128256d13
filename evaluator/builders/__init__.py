"""Builders: from a solution's sources to an artifact that a worker can load. Compiling happens in the sandbox alone.

The names are imported when first asked for: the build child and the worker import this package inside the sandbox,
where only `plan`, `child` and `load` (standard library, then torch or tvm_ffi when needed) can be imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelmill.evaluator.builders.base import Artifact as Artifact
    from kernelmill.evaluator.builders.base import Builder as Builder
    from kernelmill.evaluator.builders.base import BuildError as BuildError
    from kernelmill.evaluator.builders.base import UnsupportedHere as UnsupportedHere
    from kernelmill.evaluator.builders.pipeline import BUILDERS as BUILDERS
    from kernelmill.evaluator.builders.pipeline import build as build
    from kernelmill.evaluator.builders.pipeline import builder_for as builder_for
    from kernelmill.evaluator.builders.pipeline import builders_for as builders_for
    from kernelmill.evaluator.builders.self_test import check_builder as check_builder

_HOME = {
    "Artifact": "base",
    "BUILDERS": "pipeline",
    "BuildError": "base",
    "Builder": "base",
    "UnsupportedHere": "base",
    "build": "pipeline",
    "builder_for": "pipeline",
    "builders_for": "pipeline",
    "check_builder": "self_test",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
