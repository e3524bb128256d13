"""Log-softmax of long float32 rows, each cut into parts that meet in between."""

from __future__ import annotations

from collections.abc import Mapping

from kernelmill.agents.templates.reading import F32, constants, shaped
from kernelmill.agents.templates.space import Hardware, Params, Rule, Space, roofline
from kernelmill.trace_schema import Definition, Language

ROWS = ("batch_size", "vocab_size")
LANES = 16


def space(definition: Definition, language: Language) -> Space | None:
    """None where the definition is something else."""
    size = constants(definition).get("vocab_size")
    if not shaped(definition, ("logits", F32, ROWS), ("log_probs", F32, ROWS)) or size is None or size % LANES:
        return None

    def cost(axes: Mapping[str, int], params: Params, hardware: Hardware) -> float:
        return _cost(axes["batch_size"], size, params, hardware)

    return Space("log_softmax", definition, language, {"size": size}, _CHOICES[language], cost, _rules(language, size))


_CHOICES: Mapping[Language, Mapping[str, tuple[int | str, ...]]] = {
    Language.CPP: {"block": (512, 1024, 2048, 4096, 8192), "unroll": (1, 2, 4), "alone_below": (1, 2)},
    Language.TRITON: {"parts": (8, 16, 32, 64, 128), "warps": (2, 4, 8, 16)},
    Language.CUDA: {"parts": (8, 16, 32, 64), "threads": (128, 256, 512), "vector": (1, 2, 4)},
}


def _rules(language: Language, size: int) -> list[Rule]:
    if language is Language.CPP:
        return [Rule("a block is whole unrolled steps", lambda p: int(p["block"]) % (LANES * int(p["unroll"])) == 0)]
    if language is Language.TRITON:
        return [
            Rule("the row is whole parts", lambda p: size % int(p["parts"]) == 0),
            Rule("at most 64 values a thread", lambda p: size // int(p["parts"]) <= 64 * 32 * int(p["warps"])),
        ]
    return [Rule("a part is whole vectors", lambda p: size % (int(p["parts"]) * int(p["vector"])) == 0)]


def _cost(rows: int, size: int, params: Params, hardware: Hardware) -> float:
    moved = 8.0 * rows * size
    if "block" in params:
        apart = rows >= int(params["alone_below"])
        units = hardware.units if apart else 1
        alone = hardware._replace(
            bytes_per_s=hardware.bytes_per_s / hardware.units * units,
            flops_per_s=hardware.flops_per_s / hardware.units * units,
            units=1,
        )
        compute = rows * size * (20.0 + 4 / int(params["unroll"]) + 2048 / int(params["block"]))
        return roofline(alone, bytes_moved=moved, flops=compute, items=1, starts=float(apart))
    parts = int(params["parts"])
    bytes_a_part = 4 * size / parts
    vectors = 1 + 0.2 / int(params.get("vector", 4))
    small = 1 + 2048 / bytes_a_part
    return roofline(hardware, bytes_moved=moved * vectors * small, flops=0, items=rows * parts / 2, starts=2.0)
