"""Root mean square norm of rows, with or without a residual that is added first."""

from __future__ import annotations

from collections.abc import Mapping

from kernelmill.agents.templates.reading import BF16, constants, counts_from_one, shaped
from kernelmill.agents.templates.space import Hardware, Params, Rule, Space, roofline
from kernelmill.dataset.norms import epsilon_of
from kernelmill.trace_schema import Definition, Language

ROWS = ("batch_size", "hidden_size")
LANES = 16


def space(definition: Definition, language: Language) -> Space | None:
    """None where the definition is something else."""
    tail = (("weight", BF16, ("hidden_size",)), ("output", BF16, ROWS))
    plain = shaped(definition, ("hidden_states", BF16, ROWS), *tail)
    fused = shaped(definition, ("hidden_states", BF16, ROWS), ("residual", BF16, ROWS), *tail)
    small, hidden = epsilon_of(definition), constants(definition).get("hidden_size")
    if definition.op_type != "rmsnorm" or not (plain or fused) or small is None or hidden is None or hidden % LANES:
        return None
    if counts_from_one(definition):
        return None
    choices, rules = _CHOICES[language], _rules(language, hidden)

    def cost(axes: Mapping[str, int], params: Params, hardware: Hardware) -> float:
        return _cost(axes["batch_size"], hidden, params, hardware, streams=3 if fused else 2)

    found = {"hidden": hidden, "epsilon": small, "residual": fused, "padded": 1 << (hidden - 1).bit_length()}
    return Space("row_norm", definition, language, found, choices, cost, rules)


_CHOICES: Mapping[Language, Mapping[str, tuple[int | str, ...]]] = {
    Language.CPP: {
        "unroll": (1, 2, 4, 8),
        "keep": ("source", "scratch"),
        "threads_above": (1 << 16, 1 << 18, 1 << 20, 1 << 22),
        "prefetch": (0, 1),
    },
    Language.TRITON: {"rows": (1, 2, 4), "warps": (1, 2, 4, 8, 16), "weight_stays": (0, 1)},
    Language.CUDA: {"threads": (128, 256, 512, 1024), "vector": (4, 8), "rows": (1, 2)},
}


def _rules(language: Language, hidden: int) -> list[Rule]:
    if language is Language.CPP:
        return [Rule("the row is whole unrolled steps", lambda p: hidden % (LANES * int(p["unroll"])) == 0)]
    if language is Language.TRITON:
        return [Rule("at most 256 values a thread", lambda p: hidden * int(p["rows"]) <= 256 * 32 * int(p["warps"]))]
    return [
        Rule("the row is whole vectors of all threads", lambda p: hidden % (int(p["threads"]) * int(p["vector"])) == 0),
        Rule("at most 64 values a thread", lambda p: hidden <= 64 * int(p["threads"])),
        Rule("at most 1024 threads a block", lambda p: int(p["threads"]) * int(p["rows"]) <= 1024),
    ]


def _cost(rows: int, hidden: int, params: Params, hardware: Hardware, streams: int) -> float:
    moved = 2.0 * streams * rows * hidden
    if "unroll" in params:
        apart = moved >= int(params["threads_above"])
        latency = 1 + 1 / int(params["unroll"]) + (0.05 if params["keep"] == "scratch" else 0.0)
        units = hardware.units if apart and rows > 1 else 1
        alone = hardware._replace(bytes_per_s=hardware.bytes_per_s / hardware.units * min(units, rows), units=1)
        return roofline(alone, bytes_moved=moved * latency, flops=0, items=1, starts=float(apart))
    together = int(params["rows"])
    threads = int(params.get("threads", 32 * int(params.get("warps", 1))))
    idle = 1 + abs(hidden / threads - 8) / 64
    return roofline(hardware, bytes_moved=moved * idle, flops=0, items=max(1.0, rows / together))
