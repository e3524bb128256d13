"""Grouped-query attention of one token a sequence over a paged cache: split over the KV, then merged."""

from __future__ import annotations

from collections.abc import Mapping

from kernelmill.agents.templates.reading import BF16, F32, I32, constants, shaped
from kernelmill.agents.templates.space import Hardware, Params, Rule, Space, roofline
from kernelmill.trace_schema import Definition, Language

CACHE = ("num_pages", "page_size", "num_kv_heads", "head_dim")
PARTIALS = 1 << 24
"""Floats of partial results that the CUDA template keeps room for."""


def space(definition: Definition, language: Language) -> Space | None:
    """None where the definition is something else, or its pages hold more than one token."""
    found = constants(definition)
    query = ("batch_size", "num_qo_heads", "head_dim")
    scale = definition.inputs.get("sm_scale")
    fits = scale is not None and shaped(
        definition,
        ("q", BF16, query),
        ("k_cache", BF16, CACHE),
        ("v_cache", BF16, CACHE),
        ("kv_indptr", I32, ("len_indptr",)),
        ("kv_indices", I32, ("num_kv_indices",)),
        ("sm_scale", F32, ()),
        ("output", BF16, query),
        ("lse", F32, ("batch_size", "num_qo_heads")),
    )
    heads, kv_heads, head_dim = (found.get(name) for name in ("num_qo_heads", "num_kv_heads", "head_dim"))
    if not fits or found.get("page_size") != 1 or heads is None or kv_heads is None or head_dim != 128:
        return None
    group = heads // kv_heads
    if group * kv_heads != heads or group not in (2, 4, 8):
        return None
    if language is Language.CPP and (group != 4 or heads < 32):
        return None
    values = {"heads": heads, "kv_heads": kv_heads, "dim": head_dim, "group": group, "partials": PARTIALS}

    def cost(axes: Mapping[str, int], params: Params, hardware: Hardware) -> float:
        return _cost(axes, kv_heads * head_dim, kv_heads, params, hardware)

    return Space("decode", definition, language, values, _CHOICES[language], cost, _RULES[language])


_CHOICES: Mapping[Language, Mapping[str, tuple[int | str, ...]]] = {
    Language.CPP: {
        "fetch_keys": (0, 1),
        "fetch_values": (0, 1),
        "alone_below": (1 << 16, 1 << 18, 1 << 20, 1 << 22),
        "shares": (1, 2, 4),
    },
    Language.TRITON: {
        "splits": (1, 4, 8, 16, 32, 64),
        "tokens": (16, 32, 64, 128),
        "warps": (1, 2, 4),
        "stages": (2, 3),
    },
    Language.CUDA: {"splits": (1, 4, 8, 16, 32, 64), "warps": (2, 4, 8), "together": (1, 2, 4)},
}
_RULES: Mapping[Language, list[Rule]] = {
    Language.CPP: [],
    Language.TRITON: [
        Rule("at most 256 values a thread", lambda p: int(p["tokens"]) * 128 <= 256 * 32 * int(p["warps"])),
    ],
    Language.CUDA: [
        Rule("the merge holds at most 64 splits", lambda p: int(p["splits"]) <= 64),
    ],
}


def _cost(axes: Mapping[str, int], row: int, kv_heads: int, params: Params, hardware: Hardware) -> float:
    tokens, batch = max(1, axes["num_kv_indices"]), max(1, axes["batch_size"])
    moved = 4.0 * tokens * row
    if "shares" in params:
        apart = moved >= int(params["alone_below"])
        units = hardware.units if apart else 1
        waiting = (
            1.3 - 0.15 * int(params["fetch_keys"]) - 0.1 * int(params["fetch_values"]) + 0.02 * int(params["shares"])
        )
        alone = hardware._replace(bytes_per_s=hardware.bytes_per_s / hardware.units * units, units=1)
        return roofline(alone, bytes_moved=moved * waiting, flops=0, items=1, starts=float(apart))
    splits = int(params["splits"])
    items = batch * kv_heads * splits / 4
    length = tokens / batch / splits
    step = int(params.get("tokens", 8 * int(params.get("warps", 4))))
    waste = max(1.0, step / max(1.0, length))
    between = 8.0 * batch * splits * row
    return roofline(hardware, bytes_moved=moved * waste + between, flops=0, items=items, starts=2.0)
