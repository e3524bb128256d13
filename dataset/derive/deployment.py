"""A model on the cards that serve it: how many tokens its KV pool holds, and about how long a step takes.

Times are a roofline at stated shares of the data sheet's peaks. They only decide how many requests pile up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelmill.dataset.derive.scheduler import Limits
from kernelmill.trace_schema.errors import DatasetError

COMPUTE_SHARE, BANDWIDTH_SHARE = 0.5, 0.7
OVERHEAD_S = 0.003


@dataclass(frozen=True, slots=True)
class Machine:
    """One card: memory in bytes, dense bfloat16 FLOP/s and bytes/s from its data sheet."""

    name: str
    memory: float
    flops: float
    bandwidth: float


@dataclass(frozen=True, slots=True)
class Model:
    """Facts of a model as served (public configuration files); parameters are counted in billions (1e9)."""

    name: str
    layers: int
    kv_bytes: int
    """Bytes of KV cache that one token takes over all layers."""
    split_kv: bool
    """Whether tensor parallelism splits the cache; a latent cache is whole on every card."""
    parameters: float
    active: float
    """Parameters that one token meets."""
    experts: float = 0.0
    """Parameters in routed experts."""
    weight_bytes: float = 2.0
    """Of one parameter."""
    heads_width: int = 0
    """Query heads times head dimension, for the operations of attention."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One replica."""

    model: Model
    machine: Machine
    tp: int = 1
    limits: Limits = field(default_factory=Limits)
    memory_share: float = 0.9
    pool: int | None = None
    """Tokens in the KV pool where it is known; else what the memory leaves beside the weights."""

    @property
    def pool_tokens(self) -> int:
        if self.pool is not None:
            return self.pool
        left = self.machine.memory * self.memory_share * self.tp - self._weights * (1 + 0.02 * self.tp)
        tokens = left / (self.model.kv_bytes * (1 if self.model.split_kv else self.tp))
        if tokens < self.model.layers:
            name = f"{self.model.name} on {self.tp} x {self.machine.name}"
            raise DatasetError(f"{name} leaves no room for a KV cache: raise --tp")
        return int(tokens)

    @property
    def _weights(self) -> float:
        return self.model.parameters * 1e9 * self.model.weight_bytes

    def seconds(self, tokens: int, kv_tokens: int, pairs: int) -> float:
        """Of a step with so many new tokens, cached tokens read, and pairs of a query and a token that it sees."""
        model = self.model
        met = (model.parameters - model.experts) + model.experts * self._met_share(tokens)
        shared = self.tp if model.split_kv else 1
        moved = met * 1e9 * model.weight_bytes / self.tp + kv_tokens * model.kv_bytes / shared
        work = (2e9 * model.active * tokens + 4.0 * model.layers * model.heads_width * pairs) / self.tp
        machine = self.machine
        return OVERHEAD_S + max(moved / (machine.bandwidth * BANDWIDTH_SHARE), work / (machine.flops * COMPUTE_SHARE))

    def _met_share(self, tokens: int) -> float:
        """Share of the experts that `tokens` independent tokens meet."""
        if not self.model.experts:
            return 0.0
        one = max(0.0, self.model.active - (self.model.parameters - self.model.experts)) / self.model.experts
        return 1.0 - (1.0 - one) ** tokens


H200 = Machine("NVIDIA H200", 141e9, 989e12, 4.8e12)

MODELS = {
    model.name: model
    for model in (
        Model("llama-3.1-8b", 32, 32 * 2 * 8 * 128 * 2, True, 8.03, 8.03, heads_width=4096),
        Model("llama-3.1-70b", 80, 80 * 2 * 8 * 128 * 2, True, 70.6, 70.6, heads_width=8192),
        Model("qwen3-32b", 64, 64 * 2 * 8 * 128 * 2, True, 32.8, 32.8, heads_width=8192),
        Model("qwen3-30b-a3b", 48, 48 * 2 * 4 * 128 * 2, True, 30.5, 3.3, 29.0, heads_width=4096),
        Model("deepseek-v3", 61, 61 * 576 * 2, False, 671.0, 37.0, 654.0, 1.0, heads_width=128 * 320),
    )
}


def find_model(name: str) -> Model:
    """DatasetError where the name is unknown."""
    if name not in MODELS:
        raise DatasetError(f"no model {name!r} can be deployed; choose from {', '.join(MODELS)}")
    return MODELS[name]
