"""vLLM 0.32: a plugin of the group `vllm.general_plugins`, run in each of its processes.

- norms: a provider of its IR ops, put first in the platform's own order of preference;
- silu_and_mul: an out-of-tree subclass of its layer;
- gemm: `UnquantizedLinearMethod`, where there is no registry. On a CPU vLLM packs the weight and drops it; we keep it
  for the sizes in force, beside the packed one that serves the other calls; where calls are only traced its shape.

What an op falls back to is what vLLM would have run: the next provider, the layer's own method, the packed weight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernelmill.apply.engines import ops
from kernelmill.apply.engines.meaning import fused_norms, gated, gemms, norms
from kernelmill.apply.engines.patches import Patches
from kernelmill.apply.runtime import Runtime
from kernelmill.apply.settings import is_armed

PROVIDER = "kernelmill"
ANY_LAYER = 0
"""Of ops that need not know which layer asks."""
_patches = Patches()
_is_registered = False


def register() -> None:
    """The entry point. Idempotent, since vLLM calls it several times a process; it never fails the engine."""
    global _is_registered
    if _is_registered or not is_armed():
        return
    _is_registered = True
    from kernelmill.apply.engines.entry import placed, runtime_here, tell

    runtime = runtime_here()
    tell("vllm", runtime, [placed(part, runtime) for part in (_norms, _gated, _gemms)])


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
            return find(x, weight, epsilon, variance_size)(x, weight, ANY_LAYER)

        def supports(x, weight, epsilon, variance_size=None):  # type: ignore[no-untyped-def]
            return find(x, weight, epsilon, variance_size) is not None

        _annotated(rms_norm, op)
        op.register_impl(PROVIDER, supports_args=supports)(rms_norm)
        return

    def fused_add_rms_norm(x, x_residual, weight, epsilon, variance_size=None):  # type: ignore[no-untyped-def]
        return find(x, weight, epsilon, variance_size)(x, x_residual, weight, ANY_LAYER)

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
    found = {}
    for (width, epsilon), name in plain.items():

        def own(layer: int, x: Any, weight: Any, epsilon: float = epsilon) -> Any:
            return _next(op, x, weight, epsilon)

        found[width, epsilon, ops.dtype_of(runtime, name)] = ops.norm(runtime, name, own)
    return found


def _fused_ops(runtime: Runtime, op: Any, fused: dict[tuple[int, float], str]) -> dict[tuple[int, float, Any], Any]:
    found = {}
    for (width, epsilon), name in fused.items():

        def own(layer: int, x: Any, residual: Any, weight: Any, epsilon: float = epsilon) -> Any:
            return _next(op, x, residual, weight, epsilon)

        found[width, epsilon, ops.dtype_of(runtime, name)] = ops.fused_norm(runtime, name, own)
    return found


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

    def own(layer: int, x: Any) -> Any:
        half = x.shape[-1] // 2
        if not x.is_cuda:
            return F.silu(x[..., :half]) * x[..., half:]
        out = x.new_empty((*x.shape[:-1], half))
        torch.ops._C.silu_and_mul(out, x)
        return out

    calls = {
        (width, ops.dtype_of(runtime, name)): ops.silu_and_mul(runtime, name, own) for width, name in by_width.items()
    }

    def forward(native: Callable[..., Any]) -> Callable[..., Any]:
        def served(self: Any, x: Any) -> Any:
            call = calls.get((x.shape[-1], x.dtype)) if x.dim() == 2 else None
            return native(self, x) if call is None else call(x, ANY_LAYER)

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

    def own(layer: int, x: Any) -> Any:
        method, module = layers[layer]
        return original(method, module, x, None)

    calls = {size: ops.gemm(runtime, name, own) for size, name in by_size.items()}
    dtypes = {size: ops.dtype_of(runtime, name) for size, name in by_size.items()}

    def process_weights_after_loading(self: Any, layer: Any) -> None:
        weight = getattr(layer, "weight", None)
        size = tuple(weight.shape) if weight is not None and not weight.is_meta else ()
        if size in calls and weight is not None and weight.dtype == dtypes[size]:
            kept = weight.data if by_size[size] in runtime.served else weight.data.new_empty(()).expand(size)
            layer.kernelmill = (calls[size], kept, len(layers))
            layers.append((self, layer))
        prepare(self, layer)

    def apply(self: Any, layer: Any, x: Any, bias: Any = None) -> Any:
        kept = getattr(layer, "kernelmill", None)
        if kept is None or bias is not None or x.dim() != 2 or x.dtype != kept[1].dtype:
            return original(self, layer, x, bias)
        call, weight, number = kept
        return call(x, weight, number)

    _patches.put(UnquantizedLinearMethod, "process_weights_after_loading", process_weights_after_loading)
    _patches.put(UnquantizedLinearMethod, "apply", apply)
    return f"gemm for {sorted(by_size)}"
