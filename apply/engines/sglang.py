"""SGLang 0.5.23: a plugin of the group `sglang.srt.plugins`, run in each of its processes.

All places are taken by its hook registry: RMSNorm (with and without a residual), SiluAndMul and the linear layers that
are not quantized, each in the plain torch form that SGLang runs on a CPU without AMX. On a GPU, and with AMX, it runs
other forms, which stay as they are.

A layer gets a number when it is made, if it means what our definitions mean; an op falls back to that layer's own form.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from kernelmill.apply.engines import ops
from kernelmill.apply.engines.meaning import fused_norms, gated, gemms, norms
from kernelmill.apply.engines.patches import Patches
from kernelmill.apply.runtime import Runtime
from kernelmill.apply.settings import is_armed

NATIVE = "forward_native"
PLAIN_NORM = {
    "cast_x_before_out_mul": False,
    "fp32_residual": False,
    "has_weight": True,
    "override_orig_dtype": None,
    "variance_size_override": None,
}
"""What an RMSNorm says of itself where it gives weight * x / sqrt(mean(x^2) + epsilon), rounded once."""
NORM_ASKS = frozenset(
    "hidden_size eps var_hidden_size cast_x_before_out_mul fp32_residual has_weight weight_dtype override_orig_dtype "
    "x_pad_to_multiple force_native".split()
)
"""What an RMSNorm of this SGLang is made with: with anything else it may mean what we do not know."""


class Place(NamedTuple):
    """Where SGLang was asked to hook a function of ours in."""

    owner: type
    name: str
    original: Any

    @property
    def wrapper(self) -> Any:
        return self.owner.__dict__.get(self.name)

    @property
    def path(self) -> str:
        return f"{self.owner.__module__}.{self.owner.__qualname__}.{self.name}"


_layers: list[Any] = []
"""By number. They live as long as the model, which is as long as the process."""
_places: list[Place] = []
_patches = Patches()
_is_registered = False


def register() -> None:
    """The entry point. It never fails the engine."""
    global _is_registered
    if _is_registered or not is_armed():
        return
    _is_registered = True
    from kernelmill.apply.engines.entry import placed, runtime_here, tell

    runtime = runtime_here()
    parts = (_norms, _gated, _gemms) if not _other_form() else (_nothing,)
    told = [placed(part, runtime) for part in parts]

    def applied() -> None:
        tell("sglang", runtime, [*told, *_missing()])
        _follow()

    _when_applied(applied)


def _when_applied(then: Callable[[], None]) -> None:
    """SGLang applies the hooks of all plugins after the last of them has registered, and only logs what fails."""
    from sglang.srt.plugins.hook_registry import HookRegistry

    once = Patches()

    def apply_hooks(registry: Any) -> None:
        once.undo()
        registry.apply_hooks()
        then()

    once.put(HookRegistry, "apply_hooks", classmethod(apply_hooks))


def _missing() -> list[str]:
    """Places where no function of ours, or not ours alone, stands after all."""
    return [
        f"{place.path} NOT ours alone" if place.wrapper is not place.original else f"{place.path} NOT hooked"
        for place in _places
        if getattr(place.wrapper, "__wrapped__", None) is not place.original
    ]


def _follow() -> None:
    """Whenever apply is turned off, the very same functions stand where they stood, in layers that exist too."""
    from kernelmill.apply import state

    hooked = [(place, place.wrapper) for place in _places]

    def switch(runtime: Runtime | None) -> None:
        _patches.undo()
        for place, wrapper in hooked:
            if runtime is not None and place.wrapper is place.original:
                _patches.put(place.owner, place.name, wrapper)
        for layer in _layers:
            chosen = getattr(layer, "_forward_method", None)
            if getattr(chosen, "__name__", None) == NATIVE:
                layer._forward_method = getattr(layer, NATIVE)

    for place, _ in hooked:
        _patches.adopt(place.owner, place.name, place.original)
    state.watchers.append(switch)


def _hook(owner: type, name: str, function: Callable[..., Any]) -> None:
    """In place of the owner's own function. Hooks of other plugins stay around it."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    place = Place(owner, name, owner.__dict__[name])
    HookRegistry.register(place.path, function, HookType.REPLACE)
    _places.append(place)


def _numbered(owner: type, name: str, means: Callable[..., Any]) -> None:
    """After `name` a layer has a number, if `means`, which gets the same arguments, gives the layer."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    def number(result: Any, *args: Any, **kwargs: Any) -> None:
        layer = means(*args, **kwargs)
        if layer is not None:
            layer.__dict__["kernelmill"] = len(_layers)
            _layers.append(layer)

    place = Place(owner, name, owner.__dict__[name])
    HookRegistry.register(place.path, number, HookType.AFTER)
    _places.append(place)


def _other_form() -> str:
    """How SGLang runs its layers on this platform, where it is not in plain torch."""
    from sglang.kernels.fused_op import _platform_key

    kind: str = _platform_key()
    return f"forward_{kind}" if kind else ""


def _nothing(runtime: Runtime) -> str:
    return f"NOT substituted: SGLang runs {_other_form()} here, which nothing of ours was tried with"


def _norms(runtime: Runtime) -> str:
    plain, fused = norms(runtime), fused_norms(runtime)
    if not plain and not fused:
        return "no rms_norm in force"
    from sglang.srt.layers.layernorm import RMSNorm

    unknown = set(inspect.signature(RMSNorm.__init__).parameters) - NORM_ASKS - {"self"}
    if unknown:
        return f"rms_norm NOT substituted: this SGLang's RMSNorm asks for {sorted(unknown)}, whose meaning is not known"
    original = RMSNorm.forward_native

    def own(layer: int, *given: Any) -> Any:
        """`given`: x, perhaps the residual, and the weight, which the layer has itself."""
        return original(_layers[layer], *given[:-1])

    alone = {(*key, ops.dtype_of(runtime, name)): ops.norm(runtime, name, own) for key, name in plain.items()}
    added = {(*key, ops.dtype_of(runtime, name)): ops.fused_norm(runtime, name, own) for key, name in fused.items()}

    def forward_native(self: Any, x: Any, residual: Any = None, *rest: Any, **named: Any) -> Any:
        number = self.__dict__.get("kernelmill")
        is_plain = number is not None and x.dim() == 2 and not any(one is not None for one in (*rest, *named.values()))
        if is_plain and x.dtype == self.weight.dtype and (residual is None or residual.dtype == x.dtype):
            call = (alone if residual is None else added).get((x.shape[-1], self.variance_epsilon, x.dtype))
            if call is not None and residual is None:
                return call(x, self.weight.data, number)
            if call is not None:
                return call(x, residual, self.weight.data, number)
        return original(self, x, residual, *rest, **named)

    def means(norm: Any, *args: Any, **kwargs: Any) -> Any:
        is_plain = all(getattr(norm, name) == value for name, value in PLAIN_NORM.items())
        return norm if type(norm) is RMSNorm and is_plain else None

    _numbered(RMSNorm, "__init__", means)
    _hook(RMSNorm, NATIVE, forward_native)
    return f"rms_norm for {sorted(plain)}, fused_add_rms_norm for {sorted(fused)}"


def _gated(runtime: Runtime) -> str:
    by_width = gated(runtime, "silu")
    if not by_width:
        return "no silu_and_mul in force"
    from sglang.srt.layers.activation import SiluAndMul

    original = SiluAndMul.forward_native

    def own(layer: int, x: Any) -> Any:
        return original(_layers[layer], x)

    calls = {
        (width, ops.dtype_of(runtime, name)): ops.silu_and_mul(runtime, name, own) for width, name in by_width.items()
    }

    def forward_native(self: Any, x: Any) -> Any:
        number = self.__dict__.get("kernelmill")
        call = calls.get((x.shape[-1], x.dtype)) if number is not None and x.dim() == 2 else None
        return original(self, x) if call is None else call(x, number)

    _numbered(SiluAndMul, "__init__", lambda gate, *args, **kwargs: gate if type(gate) is SiluAndMul else None)
    _hook(SiluAndMul, NATIVE, forward_native)
    return f"silu_and_mul for {sorted(by_width)}"


def _gemms(runtime: Runtime) -> str:
    by_size = gemms(runtime)
    if not by_size:
        return "no gemm in force"
    from sglang.srt.layers.quantization.unquant import UnquantizedLinearMethod
    from sglang.srt.utils import use_intel_amx_backend

    original = UnquantizedLinearMethod.apply

    def own(layer: int, x: Any) -> Any:
        module = _layers[layer]
        return original(module.quant_method, module, x, None)

    calls = {(size, ops.dtype_of(runtime, name)): ops.gemm(runtime, name, own) for size, name in by_size.items()}

    def apply(self: Any, layer: Any, x: Any, bias: Any = None) -> Any:
        number, weight = layer.__dict__.get("kernelmill"), layer.weight
        is_plain = number is not None and bias is None and x.dim() == 2 and x.dtype == weight.dtype
        call = calls.get((tuple(weight.shape), x.dtype)) if is_plain and not use_intel_amx_backend(layer) else None
        return original(self, layer, x, bias) if call is None else call(x, weight, number)

    def means(method: Any, layer: Any, *args: Any, **kwargs: Any) -> Any:
        return layer if type(method) is UnquantizedLinearMethod else None

    _numbered(UnquantizedLinearMethod, "create_weights", means)
    _hook(UnquantizedLinearMethod, "apply", apply)
    return f"gemm for {sorted(by_size)}"
