"""For each shipped definition: which moments it is called in, how often, and how its inputs follow from a moment."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any, Literal

from kernelmill.dataset.derive.moments import Moment

Draws = dict[str, dict[str, float | str]]
"""Distribution of each random input, as in a workload."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """One workload's sizes, stored index tensors (int32 unless the name is in `wide`) and numbers."""

    axes: dict[str, int]
    tensors: dict[str, list[int]] = field(default_factory=dict)
    scalars: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a definition is called: `calls` times in a step of `model`."""

    model: str
    phase: Literal["rows", "sampled", "decode", "prefill"]
    calls: int
    draws: Draws
    inputs: Callable[[Moment], Inputs]
    wide: frozenset[str] = frozenset()
    """Stored tensors that are int64."""


def normal(std: float) -> dict[str, float | str]:
    return {"kind": "normal", "mean": 0.0, "std": std}


def uniform(low: float, high: float) -> dict[str, float | str]:
    return {"kind": "uniform", "low": low, "high": high}


def _rows(axis: str) -> Callable[[Moment], Inputs]:
    return lambda moment: Inputs({axis: sum(moment.new)})


def _sampled(moment: Moment) -> Inputs:
    return Inputs({"batch_size": moment.sampled})


def _rope(moment: Moment) -> Inputs:
    positions = chain.from_iterable(range(kv - new, kv) for new, kv in zip(moment.new, moment.kv, strict=True))
    axes = {"num_tokens": sum(moment.new), "num_qo_heads": 32, "num_kv_heads": 8, "max_seq_len": 8192}
    return Inputs(axes, {"positions": list(positions)})


def _paged(moment: Moment, sm_scale: float) -> Inputs:
    indices = list(chain.from_iterable(moment.tables))
    indptr = list(accumulate(map(len, moment.tables), initial=0))
    axes = {
        "batch_size": len(moment.tables),
        "num_pages": moment.num_pages,
        "len_indptr": len(indptr),
        "num_kv_indices": len(indices),
    }
    return Inputs(axes, {"kv_indptr": indptr, "kv_indices": indices}, {"sm_scale": sm_scale})


def _ragged(moment: Moment) -> Inputs:
    qo_indptr = list(accumulate(moment.new, initial=0))
    kv_indptr = list(accumulate(moment.kv, initial=0))
    axes = {"len_indptr": len(qo_indptr), "total_q": qo_indptr[-1], "total_kv": kv_indptr[-1]}
    return Inputs(axes, {"qo_indptr": qo_indptr, "kv_indptr": kv_indptr}, {"sm_scale": 1 / math.sqrt(128)})


LLAMA = "llama-3.1-8b"
GATE_UP: Draws = {"gate_up": normal(1.5)}

RECIPES: Mapping[str, Recipe] = {
    # Llama-3.1-8B has 32 layers; only the first norm of a step has no residual to add.
    "rmsnorm_h4096": Recipe(
        LLAMA, "rows", 1, {"hidden_states": normal(1.0), "weight": uniform(0.5, 1.5)}, _rows("batch_size")
    ),
    "fused_add_rmsnorm_h4096": Recipe(
        LLAMA,
        "rows",
        64,
        {"hidden_states": normal(1.0), "residual": normal(2.0), "weight": uniform(0.5, 1.5)},
        _rows("batch_size"),
    ),
    "silu_and_mul_i14336": Recipe(LLAMA, "rows", 32, GATE_UP, _rows("num_tokens")),
    "gelu_tanh_and_mul_i21504": Recipe("gemma-3-27b", "rows", 62, GATE_UP, _rows("num_tokens")),
    "gemm_bf16_n4096_k4096": Recipe(LLAMA, "rows", 32, {"A": normal(1.0), "B": normal(0.02)}, _rows("M")),
    "rope_with_cos_sin_cache_neox_style_d128_rd128": Recipe(
        LLAMA,
        "rows",
        32,
        {"q": normal(1.0), "k": normal(1.0), "cos_sin_cache": uniform(-1.0, 1.0)},
        _rope,
        frozenset({"positions"}),
    ),
    "moe_softmax_routing_e128_topk8": Recipe(
        "qwen3-30b-a3b", "rows", 48, {"router_logits": normal(1.5)}, _rows("num_tokens")
    ),
    "log_softmax_v128256": Recipe(LLAMA, "sampled", 1, {"logits": normal(3.0)}, _sampled),
    # Logits with a standard deviation of 4 put about as much mass on the first tokens as a chat model does.
    "top_p_sampling_from_probs_v128256": Recipe(
        LLAMA,
        "sampled",
        1,
        {"probs": {"kind": "softmax", "temperature": 0.25}, "top_p": uniform(0.8, 0.99)},
        _sampled,
    ),
    "gqa_paged_decode_h32_kv8_d128_ps1": Recipe(
        LLAMA,
        "decode",
        32,
        {"q": normal(2.0), "k_cache": normal(1.0), "v_cache": normal(1.0)},
        lambda moment: _paged(moment, 1 / math.sqrt(128)),
    ),
    "gqa_ragged_prefill_causal_h32_kv8_d128": Recipe(
        LLAMA, "prefill", 32, {"q": normal(2.0), "k": normal(1.0), "v": normal(1.0)}, _ragged
    ),
    "mla_paged_decode_h16_ckv512_kpe64_ps1": Recipe(
        "deepseek-v3",
        "decode",
        61,
        {"q_nope": normal(1.0), "q_pe": normal(1.0), "ckv_cache": normal(1.0), "kpe_cache": normal(1.0)},
        lambda moment: _paged(moment, 1 / math.sqrt(128 + 64)),
    ),
}


def input_specs(recipe: Recipe, built: Inputs, blob: Mapping[str, Any] | None) -> dict[str, Any]:
    """A workload's inputs; `blob` is the stored file's path and sha256."""
    random = {name: {"type": "random", "distribution": draw} for name, draw in recipe.draws.items()}
    stored = {name: {"type": "safetensors", "tensor_key": name, **(blob or {})} for name in built.tensors}
    scalars = {name: {"type": "scalar", "value": value} for name, value in built.scalars.items()}
    return {**random, **stored, **scalars}
