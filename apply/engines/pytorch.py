"""torch and transformers, for a plain script: `F.linear`, `F.rms_norm` and the RMSNorm modules of known models.

Each replacement asks first what the definition cannot say (a bias, an epsilon, autocast, a transform or a tracer at
work), and calls the original with exactly what it was given where anything differs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from kernelmill.apply.calls import apply
from kernelmill.apply.engines.meaning import gemms, norms
from kernelmill.apply.engines.patches import Patches
from kernelmill.apply.inside import inside, is_inside
from kernelmill.apply.runtime import Runtime

MODELS_NORMS = frozenset(
    {
        "LlamaRMSNorm",
        "MistralRMSNorm",
        "MixtralRMSNorm",
        "Qwen2RMSNorm",
        "Qwen3RMSNorm",
        "Qwen2MoeRMSNorm",
        "Qwen3MoeRMSNorm",
        "DeepseekV2RMSNorm",
        "DeepseekV3RMSNorm",
        "Phi3RMSNorm",
    }
)
"""Modules of transformers that compute weight * x / sqrt(mean(x^2) + variance_epsilon). Gemma's, which add 1 to the
weight, are not among them."""

_patches = Patches()
_is_followed = False


def follow() -> None:
    """From now on torch is patched whenever a runtime is in force, and as it was whenever none is."""
    from kernelmill.apply import state

    global _is_followed
    if not _is_followed:
        _is_followed = True
        state.watchers.append(repatch)
        repatch(state.current())


def imported(module: ModuleType) -> None:
    """What the import hooks call: torch is there, or one more of transformers' models is."""
    from kernelmill.apply import state
    from kernelmill.apply.arming.start import start

    if module.__name__ == "torch":
        start(follow)
    elif state.current() is not None:
        repatch(state.current())


def repatch(runtime: Runtime | None) -> None:
    _patches.undo()
    if runtime is None:
        return
    import torch.nn.functional as F

    by_size = gemms(runtime)
    if by_size:
        _patches.put(F, "linear", _linear(F.linear, by_size))
    epsilons = norms(runtime)
    if epsilons:
        _patches.put(F, "rms_norm", _rms_norm(F.rms_norm, epsilons))
        for owner in _norm_classes():
            _patches.put(owner, "forward", _forward(owner.__dict__["forward"], epsilons))


def _norm_classes() -> list[type]:
    return [
        found
        for name, module in list(sys.modules.items())
        if name.startswith("transformers.models.") and ".modeling_" in name
        for found in vars(module).values()
        if isinstance(found, type) and found.__name__ in MODELS_NORMS and found.__module__ == name
    ]


def _is_plain(device: str) -> bool:
    """Whether nothing watches or transforms this call: then a kernel may stand in for torch's own."""
    import torch

    return not (
        is_inside()
        or torch.compiler.is_compiling()
        or torch.is_autocast_enabled(device)
        or torch._C._len_torch_dispatch_stack()
        or torch._C._len_torch_function_stack()
        or torch._C._functorch.maybe_current_level() is not None
    )


def _linear(original: Callable[..., Any], by_size: dict[tuple[int, ...], str]) -> Callable[..., Any]:
    def linear(input: Any, weight: Any, bias: Any = None) -> Any:
        name = by_size.get(tuple(weight.shape)) if bias is None else None
        if name is None or not input.is_contiguous() or not _is_plain(input.device.type):
            return original(input, weight, bias)
        columns = weight.shape[0]

        def own(rows: Any, weight: Any) -> Any:
            return original(input, weight).view(-1, columns)

        return _served(name, input.view(-1, input.shape[-1]), weight, own).view(*input.shape[:-1], columns)

    return linear


def _rms_norm(original: Callable[..., Any], epsilons: dict[tuple[int, float], str]) -> Callable[..., Any]:
    def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
        name = None if weight is None or eps is None or weight.dim() != 1 else epsilons.get((weight.shape[0], eps))
        if name is None or tuple(normalized_shape) != tuple(weight.shape):
            return original(input, normalized_shape, weight, eps)
        return _normed(name, input, weight, lambda: original(input, normalized_shape, weight, eps))

    return rms_norm


def _forward(original: Callable[..., Any], epsilons: dict[tuple[int, float], str]) -> Callable[..., Any]:
    def forward(self: Any, hidden_states: Any) -> Any:
        weight = self.weight
        name = epsilons.get((weight.shape[0], self.variance_epsilon))
        if name is None:
            return original(self, hidden_states)
        return _normed(name, hidden_states, weight, lambda: original(self, hidden_states))

    return forward


def _normed(name: str, x: Any, weight: Any, original: Callable[[], Any]) -> Any:
    if x.shape[-1] != weight.shape[0] or not x.is_contiguous() or not _is_plain(x.device.type):
        return original()
    shape = x.shape

    def own(rows: Any, weight: Any) -> Any:
        return original().view(-1, shape[-1])

    return _served(name, x.view(-1, shape[-1]), weight, own).view(shape)


def _served(name: str, rows: Any, weight: Any, own: Callable[..., Any]) -> Any:
    return inside(apply, name, (rows, weight), None, own)
