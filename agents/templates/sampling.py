"""Nucleus (top-p) sampling: the nucleus is found by its least probability, so nothing is sorted."""

from __future__ import annotations

from collections.abc import Mapping

from kernelmill.agents.templates.reading import F32, I64, constants, shaped
from kernelmill.agents.templates.space import Hardware, Params, Rule, Space, roofline
from kernelmill.trace_schema import Definition, Language

LANES = 16


def space(definition: Definition, language: Language) -> Space | None:
    """None where the definition is something else."""
    size = constants(definition).get("vocab_size")
    rows = ("batch_size", "vocab_size")
    fits = shaped(definition, ("probs", F32, rows), ("top_p", F32, ("batch_size",)), ("samples", I64, ("batch_size",)))
    if not fits or not definition.name.startswith("top_p") or size is None or size % (4 * LANES):
        return None

    def cost(axes: Mapping[str, int], params: Params, hardware: Hardware) -> float:
        return _cost(axes["batch_size"], size, params, hardware)

    values = {"size": size, "bits": 32}
    return Space("sampling", definition, language, values, _CHOICES[language], cost, _RULES[language])


_CHOICES: Mapping[Language, Mapping[str, tuple[int | str, ...]]] = {
    Language.CPP: {"shift": (19, 20, 21, 22), "schedule": ("dynamic", "static"), "alone_below": (1, 2, 4)},
    Language.TRITON: {"block": (2048, 4096, 8192, 16384), "warps": (4, 8, 16, 32)},
    Language.CUDA: {"threads": (256, 512, 1024), "vector": (1, 2, 4), "digit": (8, 10, 11)},
}
_RULES: Mapping[Language, list[Rule]] = {
    Language.CPP: [],
    Language.TRITON: [
        Rule("at most 64 values a thread", lambda p: int(p["block"]) <= 64 * 32 * int(p["warps"])),
    ],
    Language.CUDA: [],
}


def _cost(rows: int, size: int, params: Params, hardware: Hardware) -> float:
    moved = 4.0 * rows * size
    if "shift" in params:
        units = min(rows, hardware.units) if rows >= int(params["alone_below"]) else 1
        buckets = 1 << (31 - int(params["shift"]))
        compute = rows * (size * 3.0 + 8 * buckets + 4e6 / buckets)
        alone = hardware._replace(flops_per_s=hardware.flops_per_s / hardware.units / 16 * units, units=1)
        return roofline(alone, bytes_moved=moved, flops=compute, items=1, starts=float(units > 1))
    passes = -(-31 // int(params["digit"])) + 2 if "digit" in params else 33
    threads = int(params.get("threads", 32 * int(params.get("warps", 1))))
    speed = hardware._replace(bytes_per_s=hardware.bytes_per_s * min(1.0, threads / 1024))
    return roofline(speed, bytes_moved=moved * passes * (1 + 0.2 / int(params.get("vector", 4))), flops=0, items=rows)
