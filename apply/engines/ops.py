"""Substitutions as opaque torch ops: one node that torch.compile and a CUDA graph's capture see, with a fake.

The op is defined once a process and holds no kernel: at each call it asks what is in force, so a breaker, a switch or a
shadow comparison works inside compiled code too. Under graph replay no Python runs: what was chosen at capture stays,
and a look that falls into a capture is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernelmill.apply.calls import apply
from kernelmill.apply.runtime import Runtime

NAMESPACE = "kernelmill"
_library: Any = None
_defined: dict[str, Any] = {}


def define(name: str, schema: str, run: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    """`torch.ops.kernelmill.<name>`; the one that is there already where it was defined before."""
    global _library
    import torch

    if name not in _defined:
        if _library is None:
            _library = torch.library.Library(NAMESPACE, "DEF")  # type: ignore[no-untyped-call]
        _library.define(f"{name}{schema}")
        _library.impl(name, run, "CompositeExplicitAutograd")
        _library._register_fake(name, fake)
        _defined[name] = getattr(getattr(torch.ops, NAMESPACE), name).default
    return _defined[name]


def counted(runtime: Runtime, op: str, definition: str) -> Callable[..., Any]:
    """Serves a call of `definition` and counts it by the shape of its first argument. `own` is the engine's kernel."""
    shapes = runtime.shapes

    def serve(args: Sequence[Any], own: Callable[..., Any]) -> Any:
        served = True

        def fall_back(*given: Any) -> Any:
            nonlocal served
            served = False
            return own(*given)

        result = apply(definition, tuple(args), None, fall_back)
        shapes[op if served else f"{op} (engine's own)", tuple(args[0].shape)] += 1
        return result

    return serve
