"""Substitutions as opaque torch ops: one node that torch.compile and a CUDA graph's capture see, with a fake.

The op is defined once a process and holds no kernel: at each call it asks what is in force, so a breaker, a switch or a
shadow comparison works inside compiled code too. Under graph replay no Python runs: what was chosen at capture stays,
and a look that falls into a capture is left out.

`own` is what the engine would have run. It gets the number of the engine's layer first, an op's last argument, since an
op can take no layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernelmill.apply.calls import apply
from kernelmill.apply.runtime import Runtime

Own = Callable[..., Any]
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


def dtype_of(runtime: Runtime, name: str) -> Any:
    """torch's type of a definition's first input."""
    import torch

    first = next(iter(runtime.definitions[name].inputs.values()))
    return getattr(torch, first.dtype.value)


def norm(runtime: Runtime, name: str, own: Own) -> Any:
    """(x, weight, layer) -> the normed rows."""
    import torch

    serve = counted(runtime, "rms_norm", name)

    def run(x: Any, weight: Any, layer: int) -> Any:
        return serve((x, weight), lambda x, weight: own(layer, x, weight))

    return define(
        name, "(Tensor x, Tensor weight, int layer) -> Tensor", run, lambda x, weight, layer: torch.empty_like(x)
    )


def fused_norm(runtime: Runtime, name: str, own: Own) -> Any:
    """(x, residual, weight, layer) -> the normed sum and the sum, as `own` gives them.

    The definition's one output is the norm; the sum, which the next layer adds to, is torch's own addition.
    """
    import torch

    serve = counted(runtime, "fused_add_rms_norm", name)

    def run(x: Any, residual: Any, weight: Any, layer: int) -> Any:
        sums: list[Any] = []

        def normed_alone(x: Any, residual: Any, weight: Any) -> Any:
            normed, added = own(layer, x, residual, weight)
            sums.append(added)
            return normed

        normed = serve((x, residual, weight), normed_alone)
        return normed, sums[0] if sums else x + residual

    return define(
        name,
        "(Tensor x, Tensor residual, Tensor weight, int layer) -> (Tensor, Tensor)",
        run,
        lambda x, residual, weight, layer: (torch.empty_like(x), torch.empty_like(x)),
    )


def silu_and_mul(runtime: Runtime, name: str, own: Own) -> Any:
    """(x, layer) -> one half of each row gated by the other."""
    serve = counted(runtime, "silu_and_mul", name)

    def run(x: Any, layer: int) -> Any:
        return serve((x,), lambda x: own(layer, x))

    def fake(x: Any, layer: int) -> Any:
        return x.new_empty((*x.shape[:-1], x.shape[-1] // 2))

    return define(name, "(Tensor x, int layer) -> Tensor", run, fake)


def gemm(runtime: Runtime, name: str, own: Own) -> Any:
    """(x, weight, layer) -> rows times the weight [N, K]. `own` gets the rows alone: its layer has the weight."""
    serve = counted(runtime, "gemm", name)

    def run(x: Any, weight: Any, layer: int) -> Any:
        return serve((x, weight), lambda x, weight: own(layer, x))

    def fake(x: Any, weight: Any, layer: int) -> Any:
        return x.new_empty((x.shape[0], weight.shape[0]))

    return define(name, "(Tensor x, Tensor weight, int layer) -> Tensor", run, fake)
