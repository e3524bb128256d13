"""C = A B^T in bfloat16: a GEMV for few rows, a tiled product for more, chosen in the call."""

from __future__ import annotations

from collections.abc import Mapping

from kernelmill.agents.templates.reading import BF16, constants, shaped
from kernelmill.agents.templates.space import GPU, Hardware, Params, Rule, Space, roofline
from kernelmill.trace_schema import Definition, Language

STEP = 32


def space(definition: Definition, language: Language) -> Space | None:
    """None where the definition is something else."""
    sizes = constants(definition)
    n, k = sizes.get("N"), sizes.get("K")
    if not shaped(definition, ("A", BF16, ("M", "K")), ("B", BF16, ("N", "K")), ("C", BF16, ("M", "N"))):
        return None
    if n is None or k is None or n % 256 or k % 512:
        return None

    def cost(axes: Mapping[str, int], params: Params, hardware: Hardware) -> float:
        return _cost(axes["M"], n, k, params, hardware)

    return Space("gemm", definition, language, {"n": n, "k": k}, _CHOICES[language], cost, _RULES[language])


_CHOICES: Mapping[Language, Mapping[str, tuple[int | str, ...]]] = {
    Language.CPP: {
        "tile": (4, 5, 6),
        "panel": (60, 120, 240),
        "gemv_rows": (0, 1, 2, 4),
        "prefetch": (0, 1),
    },
    Language.TRITON: {
        "thin_columns": (16, 32, 64),
        "thin_depth": (128, 256, 512),
        "rows": (64, 128),
        "columns": (64, 128, 256),
        "depth": (32, 64),
        "warps": (4, 8),
        "stages": (3, 4, 5),
    },
    Language.CUDA: {
        "gemv_rows": (1, 2, 4, 8),
        "warps": (4, 8),
        "rows": (64, 128),
        "columns": (64, 128),
        "depth": (32, 64),
    },
}


def _tile_bytes(params: Params) -> int:
    return 2 * (int(params["rows"]) + int(params["columns"])) * int(params["depth"])


_RULES: Mapping[Language, list[Rule]] = {
    Language.CPP: [
        Rule("a panel is whole tiles", lambda p: int(p["panel"]) % int(p["tile"]) == 0),
        Rule("the tile fits 32 vector registers", lambda p: 4 * int(p["tile"]) + 5 <= 32),
        Rule("GEMV rows are fewer than a tile's", lambda p: int(p["gemv_rows"]) < int(p["tile"])),
    ],
    Language.TRITON: [
        Rule("the stages fit shared memory", lambda p: _tile_bytes(p) * int(p["stages"]) <= GPU.block_bytes),
        Rule("a thread holds at most 128 sums", lambda p: _sums(p) <= 128),
        Rule("the thin tile's stages fit shared memory", lambda p: _thin_bytes(p) <= GPU.block_bytes),
    ],
    Language.CUDA: [
        Rule("a tile's shared memory is at most 48 KiB", lambda p: _padded_bytes(p) <= 48 << 10),
        Rule("a thread holds at most 128 sums", lambda p: _sums(p) <= 128),
        Rule("warps divide the tile", lambda p: int(p["rows"]) // 16 % (int(p["warps"]) // 2) == 0),
    ],
}


def _sums(params: Params) -> int:
    return int(params["rows"]) * int(params["columns"]) // (32 * int(params["warps"]))


def _thin_bytes(params: Params) -> int:
    return 2 * (16 + int(params["thin_columns"])) * int(params["thin_depth"]) * int(params["stages"])


def _padded_bytes(params: Params) -> int:
    return 2 * (int(params["rows"]) + int(params["columns"])) * (int(params["depth"]) + 8)


def _cost(m: int, n: int, k: int, params: Params, hardware: Hardware) -> float:
    moved, flops = 2.0 * (n * k + m * (n + k)), 2.0 * m * n * k
    if "tile" in params:
        reread = max(1.0, m / int(params["panel"]))
        waste = -(-m // int(params["tile"])) * int(params["tile"]) / m
        thin = m <= int(params["gemv_rows"])
        moved = 2.0 * n * k * reread * (1.0 if params["prefetch"] else 1.02)
        return roofline(hardware, bytes_moved=moved, flops=flops * (1.0 if thin else waste), items=n)
    if m <= 16:
        columns = int(params.get("thin_columns", int(params["warps"])))
        return roofline(hardware, bytes_moved=moved, flops=0, items=n / columns)
    rows, columns = int(params["rows"]), int(params["columns"])
    tiles = -(-m // rows) * (n // columns)
    reuse = 1 + 64 / rows + 64 / columns
    waves = -(-tiles // hardware.units) * hardware.units / tiles
    padded = flops * (-(-m // rows) * rows / m) * waves * reuse / 2
    stages = int(params.get("stages", 1))
    return roofline(hardware, bytes_moved=moved * reuse, flops=padded * (1 + 0.5 / stages), items=hardware.units)
