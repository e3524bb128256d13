"""Elementwise chains over two halves of a row: an activation of the first, times the second."""

from __future__ import annotations

from collections.abc import Mapping

from kernelmill.agents.templates.reading import BF16, constants, shaped
from kernelmill.agents.templates.space import Hardware, Params, Rule, Space, roofline
from kernelmill.trace_schema import Definition, Language

ACTIVATIONS = ("silu", "gelu_tanh")
LANES = 16


def space(definition: Definition, language: Language) -> Space | None:
    """None where the definition is something else. The activation is read off its name."""
    kind = next((name for name in ACTIVATIONS if definition.name.startswith(f"{name}_and_mul")), None)
    size = constants(definition).get("intermediate_size")
    rows = ("gate_up", BF16, ("num_tokens", "gate_up_size")), ("output", BF16, ("num_tokens", "intermediate_size"))
    if kind is None or size is None or size % LANES or not shaped(definition, *rows):
        return None

    def cost(axes: Mapping[str, int], params: Params, hardware: Hardware) -> float:
        return _cost(axes["num_tokens"], size, params, hardware)

    return Space(
        "gated", definition, language, {"size": size, "kind": kind}, _CHOICES[language], cost, _rules(language, size)
    )


_CHOICES: Mapping[Language, Mapping[str, tuple[int | str, ...]]] = {
    Language.CPP: {
        "block": (256, 512, 1024, 2048, 3584, 7168),
        "unroll": (1, 2, 4),
        "threads_above": (1 << 16, 1 << 18, 1 << 20, 1 << 22),
        "divide": ("exact", "newton"),
    },
    Language.TRITON: {"block": (512, 1024, 2048, 4096, 8192), "warps": (1, 2, 4, 8), "streaming": (0, 1)},
    Language.CUDA: {"threads": (64, 128, 256, 512), "vector": (4, 8), "steps": (1, 2, 4)},
}


def _rules(language: Language, size: int) -> list[Rule]:
    if language is Language.CPP:
        return [
            Rule("the row is whole blocks", lambda p: size % int(p["block"]) == 0),
            Rule("a block is whole unrolled steps", lambda p: int(p["block"]) % (LANES * int(p["unroll"])) == 0),
        ]
    if language is Language.TRITON:
        return [Rule("at most 64 values a thread", lambda p: int(p["block"]) <= 64 * 32 * int(p["warps"]))]
    return [
        Rule(
            "the row is whole vectors of all threads",
            lambda p: size % (int(p["threads"]) * int(p["vector"]) * int(p["steps"])) == 0,
        )
    ]


def _cost(rows: int, size: int, params: Params, hardware: Hardware) -> float:
    moved = 6.0 * rows * size
    if "unroll" in params:
        apart = moved >= int(params["threads_above"])
        units = hardware.units if apart else 1
        compute = rows * size * (24.0 + 4 / int(params["unroll"]) - (3 if params["divide"] == "newton" else 0))
        alone = hardware._replace(
            bytes_per_s=hardware.bytes_per_s / hardware.units * units,
            flops_per_s=hardware.flops_per_s / hardware.units * units,
            units=1,
        )
        small = 1 + 64 / int(params["block"])
        return roofline(alone, bytes_moved=moved * small, flops=compute, items=1, starts=float(apart))
    block = int(
        params.get("block", int(params.get("threads", 1)) * int(params.get("vector", 1)) * int(params.get("steps", 1)))
    )
    return roofline(hardware, bytes_moved=moved * (1 + 128 / block), flops=0, items=rows * size / block / 2)
