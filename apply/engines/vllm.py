"""vLLM 0.32: a plugin of the group `vllm.general_plugins`, run in each of its processes.

- norms: a provider of its IR ops, put first in the platform's own order of preference;
- silu_and_mul: an out-of-tree subclass of its layer;
- gemm: `UnquantizedLinearMethod`, where there is no registry. On a CPU vLLM packs the weight and drops it; we keep it
  for the sizes in force, beside the packed one that serves the other calls; where calls are only traced its shape.

What an op falls back to is what vLLM would have run: the next provider, the layer's own method, the packed weight.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from kernelmill.apply.engines import ops
from kernelmill.apply.engines.meaning import fused_norms, gated, gemms, norms
from kernelmill.apply.engines.patches import Patches
from kernelmill.apply.guard.events import Events
from kernelmill.apply.runtime import Looks, Runtime
from kernelmill.apply.settings import is_armed

PROVIDER = "kernelmill"
TESTED = "0.32.0"
_patches = Patches()
_is_registered = False


def register() -> None:
    """The entry point. Idempotent, since vLLM calls it several times a process; it never fails the engine, and says at
    every start what was substituted or why nothing was: vLLM itself only logs that a plugin failed to load."""
    global _is_registered
    if _is_registered or not is_armed():
        return
    _is_registered = True
    from kernelmill.apply.arming.start import start
    from kernelmill.apply.state import current

    log = logging.getLogger("vllm.kernelmill")
    runtime = current() if start() else None
    parts = (_norms, _gated, _gemms)
    told = [self_check(part, runtime or Runtime("cpu", Looks(), Events(None))) for part in parts]
    if runtime is None or not runtime.definitions or any(" NOT " in one for one in told):
        log.error("kernelmill in process %s: %s; see: kernelmill apply explain", _process(), "; ".join(told))
    else:
        log.warning("kernelmill in process %s: %s", _process(), "; ".join(told))
    if runtime is not None:
        runtime.events.write("vllm", parts=told)


def self_check(part: Callable[[Runtime], str], runtime: Runtime) -> str:
    """What a part has put in place, or why it could not, without failing the engine for it."""
    try:
        return part(runtime)
    except (ImportError, AttributeError, AssertionError, TypeError, RuntimeError) as error:
        return f"{part.__name__.strip('_')} NOT substituted: {type(error).__name__}: {error}"


def _process() -> str:
    import multiprocessing
    import os

    return f"{multiprocessing.current_process().name} ({os.getpid()})"


def _norms(runtime: Runtime) -> str:
    """Every process offers the provider, be it for nothing: the order of preference is made in one of them for all."""
    import vllm.kernels  # noqa: F401 - the engine's own providers come first
    from vllm import ir
    from vllm.platforms import current_platform

    plain, fused = norms(runtime), fused_norms(runtime)
    _provide(ir.ops.rms_norm, _norm_ops(runtime, ir.ops.rms_norm, plain))
    _provide(ir.ops.fused_add_rms_norm, _fused_ops(runtime, ir.ops.fused_add_rms_norm, fused))
    _prefer(type(current_platform), ["rms_norm", "fused_add_rms_norm"])
    return f"rms_norm for {sorted(plain)}, fused_add_rms_norm for {sorted(fused)}"


def _provide(op: Any, calls: dict[tuple[int, float, Any], Any]) -> None:
    """`calls`: opaque ops by width, epsilon and dtype. The signatures must be the native ones."""

    def find(x: Any, weight: Any, epsilon: float, variance_size: int | None) -> Any:
        if weight is None or variance_size is not None or x.dim() != 2 or weight.dtype != x.dtype:
            return None
        return calls.get((x.shape[-1], epsilon, x.dtype))

    if op.name == "rms_norm":

        def rms_norm(x, weight, epsilon, variance_size=None):  # type: ignore[no-untyped-def]
            return find(x, weight, epsilon, variance_size)(x, weight)

        def supports(x, weight, epsilon, variance_size=None):  # type: ignore[no-untyped-def]
            return find(x, weight, epsilon, variance_size) is not None

        _annotated(rms_norm, op)
        op.register_impl(PROVIDER, supports_args=supports)(rms_norm)
        return

    def fused_add_rms_norm(x, x_residual, weight, epsilon, variance_size=None):  # type: ignore[no-untyped-def]
        return find(x, weight, epsilon, variance_size)(x, x_residual, weight)

    def supports_fused(x, x_residual, weight, epsilon, variance_size=None):  # type: ignore[no-untyped-def]
        return x_residual.dtype == x.dtype and find(x, weight, epsilon, variance_size) is not None

    _annotated(fused_add_rms_norm, op)
    op.register_impl(PROVIDER, supports_args=supports_fused)(fused_add_rms_norm)


def _annotated(function: Any, op: Any) -> None:
    """With the native one's own annotations: vLLM infers a schema from them and compares."""
    function.__annotations__ = dict(op.impls["native"].impl_fn.__annotations__)


def _next(op: Any, *args: Any) -> Any:
    """What vLLM would run in our place."""
    for found in op._priority_impls:
        if found.provider != PROVIDER and found.supports_args(*args):
            return found.func_impl_fn(*args)
    return op.impls["native"].func_impl_fn(*args)


def _norm_ops(runtime: Runtime, op: Any, plain: dict[tuple[int, float], str]) -> dict[tuple[int, float, Any], Any]:
    import torch

    found = {}
    for (width, epsilon), name in plain.items():
        serve = ops.counted(runtime, "rms_norm", name)

        def run(x: Any, weight: Any, serve: Any = serve, epsilon: float = epsilon) -> Any:
            return serve((x, weight), lambda x, weight: _next(op, x, weight, epsilon))

        call = ops.define(name, "(Tensor x, Tensor weight) -> Tensor", run, lambda x, weight: torch.empty_like(x))
        found[width, epsilon, _dtype(runtime, name)] = call
    return found


def _fused_ops(runtime: Runtime, op: Any, fused: dict[tuple[int, float], str]) -> dict[tuple[int, float, Any], Any]:
    """The definition's one output is the norm; the sum, which the next layer adds to, is torch's own addition."""
    import torch

    found = {}
    for (width, epsilon), name in fused.items():
        serve = ops.counted(runtime, "fused_add_rms_norm", name)

        def run(x: Any, residual: Any, weight: Any, serve: Any = serve, epsilon: float = epsilon) -> Any:
            sums: list[Any] = []

            def own(x: Any, residual: Any, weight: Any) -> Any:
                normed, added = _next(op, x, residual, weight, epsilon)
                sums.append(added)
                return normed

            normed = serve((x, residual, weight), own)
            return normed, sums[0] if sums else x + residual

        call = ops.define(
            name,
            "(Tensor x, Tensor residual, Tensor weight) -> (Tensor, Tensor)",
            run,
            lambda x, residual, weight: (torch.empty_like(x), torch.empty_like(x)),
        )
        found[width, epsilon, _dtype(runtime, name)] = call
    return found


def _dtype(runtime: Runtime, name: str) -> Any:
    import torch

    first = next(iter(runtime.definitions[name].inputs.values()))
    return getattr(torch, first.dtype.value)


def _prefer(platform: type, wanted: list[str]) -> None:
    """Puts our provider first in what the platform prefers, without a flag on the command line."""
    original = platform.get_default_ir_op_priority  # type: ignore[attr-defined]

    def get_default_ir_op_priority(cls: type, *args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        for name in wanted:
            order = getattr(found, name)
            if PROVIDER not in order:
                setattr(found, name, [PROVIDER, *order])
        return found

    setattr(platform, "get_default_ir_op_priority", classmethod(get_default_ir_op_priority))  # noqa: B010


def _gated(runtime: Runtime) -> str:
    by_width = gated(runtime, "silu")
    if not by_width:
        return "no silu_and_mul in force"
    import torch
    import torch.nn.functional as F
    from vllm.model_executor.layers.activation import SiluAndMul

    calls = {}
    for width, name in by_width.items():
        serve = ops.counted(runtime, "silu_and_mul", name)

        def own(x: Any) -> Any:
            half = x.shape[-1] // 2
            if not x.is_cuda:
                return F.silu(x[..., :half]) * x[..., half:]
            out = x.new_empty((*x.shape[:-1], half))
            torch.ops._C.silu_and_mul(out, x)
            return out

        def run(x: Any, serve: Any = serve) -> Any:
            return serve((x,), own)

        def fake(x: Any) -> Any:
            return x.new_empty((*x.shape[:-1], x.shape[-1] // 2))

        calls[width, _dtype(runtime, name)] = ops.define(name, "(Tensor x) -> Tensor", run, fake)

    def forward(native: Callable[..., Any]) -> Callable[..., Any]:
        def served(self: Any, x: Any) -> Any:
            call = calls.get((x.shape[-1], x.dtype)) if x.dim() == 2 else None
            return native(self, x) if call is None else call(x)

        return served

    class SubstitutedSiluAndMul(SiluAndMul):  # type: ignore[misc]
        forward_native = forward(lambda self, x: SiluAndMul.forward_native(x))
        forward_cpu = forward(SiluAndMul.forward_cpu)
        forward_cuda = forward(SiluAndMul.forward_cuda)

    SiluAndMul.register_oot(name="SiluAndMul")(SubstitutedSiluAndMul)
    return f"silu_and_mul for {sorted(by_width)}"


def _gemms(runtime: Runtime) -> str:
    by_size = gemms(runtime)
    if not by_size:
        return "no gemm in force"
    from vllm.model_executor.layers.linear import UnquantizedLinearMethod

    prepare, original = UnquantizedLinearMethod.process_weights_after_loading, UnquantizedLinearMethod.apply
    layers: list[Any] = []
    calls = {size: _gemm_op(runtime, name, layers, original) for size, name in by_size.items()}
    dtypes = {size: _dtype(runtime, name) for size, name in by_size.items()}

    def process_weights_after_loading(self: Any, layer: Any) -> None:
        weight = getattr(layer, "weight", None)
        size = tuple(weight.shape) if weight is not None and not weight.is_meta else ()
        if size in calls and weight is not None and weight.dtype == dtypes[size]:
            kept = weight.data if by_size[size] in runtime.served else weight.data.new_empty(()).expand(size)
            layer.kernelmill = (calls[size], kept, len(layers))
            layers.append((self, layer))
        prepare(self, layer)

    def apply(self: Any, layer: Any, x: Any, bias: Any = None) -> Any:
        own = getattr(layer, "kernelmill", None)
        if own is None or bias is not None or x.dim() != 2 or x.dtype != own[1].dtype:
            return original(self, layer, x, bias)
        return own[0](x, own[1], own[2])

    _patches.put(UnquantizedLinearMethod, "process_weights_after_loading", process_weights_after_loading)
    _patches.put(UnquantizedLinearMethod, "apply", apply)
    return f"gemm for {sorted(by_size)}"


def _gemm_op(runtime: Runtime, name: str, layers: list[Any], original: Callable[..., Any]) -> Any:
    serve = ops.counted(runtime, "gemm", name)

    def run(x: Any, weight: Any, layer: int) -> Any:
        method, module = layers[layer]
        return serve((x, weight), lambda x, weight: original(method, module, x, None))

    def fake(x: Any, weight: Any, layer: int) -> Any:
        return x.new_empty((x.shape[0], weight.shape[0]))

    return ops.define(name, "(Tensor x, Tensor weight, int layer) -> Tensor", run, fake)
