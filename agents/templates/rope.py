"""Rotary position embedding of queries and keys, NeoX style, with angles from a cache."""

from __future__ import annotations

from collections.abc import Mapping

from kernelmill.agents.templates.reading import BF16, F32, I64, constants, shaped
from kernelmill.agents.templates.space import Hardware, Params, Rule, Space, roofline
from kernelmill.trace_schema import Definition, Language

LANES = 16


def space(definition: Definition, language: Language) -> Space | None:
    """None where the definition is something else, or rotates a part of the head only."""
    sizes = constants(definition)
    head = sizes.get("head_size")
    q, k = ("num_tokens", "num_qo_heads", "head_size"), ("num_tokens", "num_kv_heads", "head_size")
    fits = shaped(
        definition,
        ("q", BF16, q),
        ("k", BF16, k),
        ("cos_sin_cache", F32, ("max_seq_len", "rotary_dim")),
        ("positions", I64, ("num_tokens",)),
        ("q_out", BF16, q),
        ("k_out", BF16, k),
    )
    if not fits or "neox" not in definition.name or head is None or head != sizes.get("rotary_dim"):
        return None
    if head % (2 * LANES) or head & (head - 1):
        return None

    def cost(axes: Mapping[str, int], params: Params, hardware: Hardware) -> float:
        return _cost(axes, head, params, hardware)

    return Space("rope", definition, language, {"head": head}, _CHOICES[language], cost, _rules(language, head))


_CHOICES: Mapping[Language, Mapping[str, tuple[int | str, ...]]] = {
    Language.CPP: {
        "angles": ("registers", "memory"),
        "threads_above": (1 << 16, 1 << 18, 1 << 20, 1 << 22),
        "work": ("token", "head"),
    },
    Language.TRITON: {"heads": (1, 2, 4, 8, 16), "warps": (1, 2, 4, 8)},
    Language.CUDA: {"threads": (64, 128, 256), "vector": (2, 4, 8)},
}


def _rules(language: Language, head: int) -> list[Rule]:
    if language is Language.TRITON:
        return [Rule("at most 64 values a thread", lambda p: int(p["heads"]) * head <= 64 * 32 * int(p["warps"]))]
    if language is Language.CUDA:
        return [Rule("half a head is whole vectors", lambda p: head % (2 * int(p["vector"])) == 0)]
    return []


def _cost(axes: Mapping[str, int], head: int, params: Params, hardware: Hardware) -> float:
    heads = axes["num_qo_heads"] + axes["num_kv_heads"]
    moved = 4.0 * axes["num_tokens"] * heads * head
    if "angles" in params:
        apart = moved >= int(params["threads_above"])
        pieces = axes["num_tokens"] * (heads if params["work"] == "head" else 1)
        units = min(hardware.units, pieces) if apart else 1
        slower = 1 + (0.1 if params["angles"] == "memory" else 0) + (0.1 if params["work"] == "head" else 0)
        alone = hardware._replace(bytes_per_s=hardware.bytes_per_s / hardware.units * units, units=1)
        return roofline(alone, bytes_moved=moved * slower, flops=0, items=1, starts=float(apart))
    if "heads" in params:
        items = axes["num_tokens"] * heads / int(params["heads"])
        idle = 1 + int(params["warps"]) * 8 / (int(params["heads"]) * head)
    else:
        items = axes["num_tokens"] * heads * head / 2 / int(params["vector"]) / int(params["threads"])
        idle = 1 + 0.5 / int(params["vector"])
    return roofline(hardware, bytes_moved=moved * idle, flops=0, items=max(1.0, items / 4))
