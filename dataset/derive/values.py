"""What the values of an input look like: a distribution that fits its meaning, or the number that models use.

Nothing here is recorded traffic; it is chosen so that a kernel meets the ranges, signs and peaks that it will serve.
The first rule that fits counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from kernelmill.trace_schema import Definition, TensorSpec
from kernelmill.trace_schema.errors import DatasetError

Draw = dict[str, Any]


def normal(std: float, mean: float = 0.0) -> Draw:
    return {"kind": "normal", "mean": mean, "std": std}


def uniform(low: float, high: float) -> Draw:
    return {"kind": "uniform", "low": low, "high": high}


def lognormal(median: float, spread: float) -> Draw:
    """Positive values around the median; `spread` is the standard deviation of their logarithm."""
    return {"kind": "lognormal", "mean": round(math.log(median), 6), "std": spread}


def whole(low: int, high: int) -> Draw:
    return {"kind": "randint", "low": low, "high": high}


KEY_STD = 1 / math.sqrt(128)
WEIGHT = r"weight|^b(_|$)|^w\d?(_|$)"
FLOATS: tuple[tuple[str, str, Draw], ...] = (
    # (op type, input, what it is drawn from), both regular expressions
    # Scales of quantised values: positive; a weight's block is small, an activation's near one.
    (".*", r"weights?_scale|^[bBwW]\d?_scale|scale_[bBwW]$", lognormal(0.02, 0.25)),
    (".*", r"scale", lognormal(1.0, 0.25)),
    ("rmsnorm", r"weight|gamma", uniform(0.5, 1.5)),
    ("rmsnorm", r"residual", normal(2.0)),
    ("activation|silu", r".*", normal(1.5)),
    ("rope", r"cos|sin", uniform(-1.0, 1.0)),
    # Logits with a standard deviation of 4 put about as much mass on the first tokens as a chat model does.
    ("sampling|multinomial", r"probs", {"kind": "softmax", "temperature": 0.25}),
    ("sampling|multinomial", r"logits", normal(4.0)),
    ("sampling", r"top_p", uniform(0.8, 0.99)),
    ("sampling", r"min_p", uniform(0.02, 0.1)),
    ("sampling", r"temperature", uniform(0.6, 1.2)),
    ("sampling", r"uniform|u$", uniform(0.0, 1.0)),
    ("softmax|topk", r".*", normal(3.0)),
    ("moe", r"bias$", normal(0.2)),
    # Of a row's variance a third is its experts' own popularity, so that some get many times the tokens of others.
    ("moe", r"logits|gating", {**normal(1.2), "column_std": 0.85}),
    ("moe", r"topk_weights", {"kind": "softmax"}),
    ("gqa.*|mla.*", r"sink", normal(1.0)),
    ("gqa.*", r"^q$", normal(2.0)),
    # Keys of about unit length, and decays as they are initialised: a state that neither explodes nor dies.
    ("gdn", r"^[qk]$", normal(round(KEY_STD, 6))),
    ("gdn", r"A_log", uniform(0.0, 2.7)),
    ("gdn|mamba_ssu", r"dt_bias", uniform(-4.6, -2.2)),
    ("gdn", r"state", normal(0.1)),
    ("mamba_ssu", r"^A$", uniform(-16.0, -1.0)),
    ("mamba_ssu", r"^D$", uniform(0.5, 1.5)),
    ("mamba_ssu", r"state", normal(0.5)),
    ("dsa.*|nsa.*", r"^weights$", lognormal(0.1, 0.5)),
    (".*", r"bias", normal(0.1)),
)
INTEGERS: tuple[tuple[str, str, Callable[[Definition], Draw]], ...] = (
    ("sampling", r"top_k", lambda _: whole(20, 101)),
    ("embedding", r"ids|tokens|indices", lambda definition: whole(0, definition.const_axes["vocab_size"])),
    # Bytes that read as positive finite numbers, whether as fp8 keys or as the float32 scales among them.
    ("dsa.*|nsa.*", r"cache", lambda _: whole(48, 60)),
)
SCALARS: dict[str, Callable[[Definition], float | int | bool]] = {
    "sm_scale": lambda definition: 1 / math.sqrt(_logit_width(definition)),
    "scale": lambda definition: 1 / math.sqrt(_logit_width(definition)),
    "softmax_scale": lambda definition: 1 / math.sqrt(_logit_width(definition)),
    "routed_scaling_factor": lambda _: 2.5,
    "local_expert_offset": lambda _: 0,
    "dt_softplus": lambda _: True,
    "logits_soft_cap": lambda _: 50.0,
    "window_left": lambda definition: definition.const_axes.get("window_left", 127),
    "eps": lambda _: 1e-6,
    "seed": lambda _: 0,
    "philox_seed": lambda _: 0,
    "philox_offset": lambda _: 0,
}


def _logit_width(definition: Definition) -> int:
    """Elements of one key before anything was absorbed into the query: 128 without rotary part in latent attention."""
    sizes = definition.const_axes
    if "head_dim_kpe" in sizes:
        return sizes.get("qk_nope_head_dim", 128) + sizes["head_dim_kpe"]
    for name in ("qk_dim", "head_dim_qk", "head_dim", "head_size", "index_head_dim"):
        if name in sizes:
            return sizes[name]
    raise DatasetError(f"{definition.name}: no axis says how wide a head is (head_dim, head_size or qk_dim)")


def scalar(definition: Definition, name: str) -> float | int | bool:
    """DatasetError where nobody knows what a model would pass."""
    if name not in SCALARS:
        raise _unknown(definition, name, "number")
    return SCALARS[name](definition)


def draw(definition: Definition, name: str, spec: TensorSpec) -> Draw:
    """What the elements of a tensor that is not stored are drawn from."""
    if not spec.dtype.is_float:
        for op_type, pattern, make in INTEGERS:
            if re.fullmatch(op_type, definition.op_type) and re.search(pattern, name):
                return make(definition)
        raise _unknown(definition, name, "index tensor")
    if definition.op_type == "rmsnorm" and name == "weight" and "gemma" in definition.name:
        return uniform(-0.5, 0.5)  # it is added to one
    if spec.dtype.value.startswith(("float8", "float4")):
        return normal(1.0)
    for op_type, pattern, found in FLOATS:
        if re.fullmatch(op_type, definition.op_type) and re.search(pattern, name):
            return found
    return normal(0.02 if spec.role == "static" or re.search(WEIGHT, name, re.IGNORECASE) else 1.0)


def _unknown(definition: Definition, name: str, what: str) -> DatasetError:
    return DatasetError(
        f"{definition.name}: no rule gives the {what} {name!r} of op type {definition.op_type!r}; add one to "
        "dataset/derive/values.py or recipes.py"
    )
