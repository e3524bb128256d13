"""A picture of the shipped workloads beside the public dataset's: `python -m benchmarks.workload_picture --public DIR`.

DIR is a dataset in the public layout (flashinfer_trace). Only axes are read, so its blobs need not be there. The SVG is
drawn by hand: three scatter plots with logarithmic axes, one mark a workload.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelmill.dataset import Dataset
from kernelmill.dataset.paths import default_path

Points = Sequence[tuple[float, float]]
WIDTH, HEIGHT, LEFT, TOP, GAP = 270, 210, 58, 44, 78
OURS, THEIRS = "#2563eb", "#dc2626"
DECODE = ("gqa_paged_decode_h32_kv4_d128_ps16", "mla_paged_decode_h16_ckv512_kpe64_ps64")
PREFILL = ("gqa_paged_prefill_causal_h32_kv4_d128_ps16", "gqa_paged_prefill_causal_h32_kv8_d128_ps16")
DECODE_PUBLIC = ("gqa_paged_decode_h32_kv8_d128_ps1", "mla_paged_decode_h16_ckv512_kpe64_ps1")
PREFILL_PUBLIC = ("gqa_paged_prefill_causal_h32_kv4_d128_ps1",)
ROWS = ("gemm_n4096_k4096", "fused_add_rmsnorm_h4096", "moe_fp8_block_scale_ds_routing_topk8_ng8_kg4_e32_h7168_i2048")
ROWS_OURS = ("gemm_bf16_n4096_k14336", "fused_add_rmsnorm_inplace_h5120", ROWS[2])


@dataclass(frozen=True)
class Panel:
    """One plot; axes are (label, least, greatest)."""

    title: str
    x: tuple[str, float, float]
    y: tuple[str, float, float]
    ours: Points
    theirs: Points
    diagonal: bool = False


def axes_of(dataset: Dataset, names: Iterable[str]) -> list[dict[str, int]]:
    """Sizes of every workload of those definitions."""
    known = [dataset.definition(name) for name in names]
    return [one.resolve_axes(workload.axes) for one in known for workload in dataset.workloads(one)]


def panels(ours: Dataset, public: Dataset) -> list[Panel]:
    def decode(dataset: Dataset, names: Iterable[str]) -> Points:
        return [(one["batch_size"], one["num_kv_indices"] * one["page_size"]) for one in axes_of(dataset, names)]

    def prefill(dataset: Dataset, names: Iterable[str]) -> Points:
        return [(one["total_q"], one["num_kv_indices"] * one["page_size"]) for one in axes_of(dataset, names)]

    def rows(dataset: Dataset, names: Iterable[str]) -> Points:
        return [
            (size.get("M") or size.get("batch_size") or size["seq_len"], at + 1.0)
            for at, name in enumerate(names)
            for size in axes_of(dataset, [name])
        ]

    cached = ("cached tokens of all sequences", 1.0, 2e6)
    return [
        Panel("decode", ("sequences", 1.0, 1024.0), cached, decode(ours, DECODE), decode(public, DECODE_PUBLIC)),
        Panel(
            "prefill: below the line, queries see nothing",
            ("new tokens", 1.0, 2e4),
            cached,
            prefill(ours, PREFILL),
            prefill(public, PREFILL_PUBLIC),
            diagonal=True,
        ),
        Panel(
            "rows of GEMM (below), norm, MoE (above)",
            ("tokens in the step", 1.0, 2e4),
            ("", 0.7, 4.4),
            [(x, y * 0.97) for x, y in rows(ours, ROWS_OURS)],
            [(x, y * 1.06) for x, y in rows(public, ROWS)],
        ),
    ]


def draw(shown: Sequence[Panel]) -> str:
    """The SVG's text."""
    total = LEFT + len(shown) * (WIDTH + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {TOP + HEIGHT + 58}" '
        'font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{total}" height="{TOP + HEIGHT + 58}" fill="#fff"/>',
        f'<circle cx="{LEFT + 6}" cy="14" r="4" fill="{OURS}" fill-opacity=".6"/>',
        f'<text x="{LEFT + 16}" y="18">this dataset</text>',
        f'<path d="{cross(LEFT + 116, 14)}" stroke="{THEIRS}" stroke-width="1.5"/>',
        f'<text x="{LEFT + 126}" y="18">public dataset</text>',
    ]
    for at, panel in enumerate(shown):
        parts += _panel(panel, LEFT + at * (WIDTH + GAP))
    return "\n".join([*parts, "</svg>", ""])


def cross(x: float, y: float) -> str:
    return f"M{x - 3:.1f} {y - 3:.1f}l6 6m0 -6l-6 6"


def _panel(panel: Panel, left: float) -> list[str]:
    def place(point: tuple[float, float]) -> tuple[float, float]:
        shares = []
        for value, (_, least, greatest) in zip(point, (panel.x, panel.y), strict=True):
            shares.append(math.log(max(value, least) / least) / math.log(greatest / least))
        return left + shares[0] * WIDTH, TOP + HEIGHT - shares[1] * HEIGHT

    parts = [
        f'<text x="{left}" y="{TOP - 8}" font-weight="600">{panel.title}</text>',
        f'<rect x="{left}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#94a3b8"/>',
        f'<text x="{left + WIDTH / 2}" y="{TOP + HEIGHT + 34}" text-anchor="middle">{panel.x[0]}</text>',
    ]
    for power in range(7):
        value = 10.0**power
        if value <= panel.x[2]:
            x, _ = place((value, panel.y[1]))
            parts.append(f'<text x="{x:.0f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{tick(power)}</text>')
        if panel.y[0] and value <= panel.y[2]:
            _, y = place((panel.x[1], value))
            parts.append(f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{tick(power)}</text>')
    if panel.y[0]:
        middle = TOP + HEIGHT / 2
        turned = f'transform="rotate(-90 {left - 42} {middle})"'
        parts.append(f'<text x="{left - 42}" y="{middle}" text-anchor="middle" {turned}>{panel.y[0]}</text>')
    if panel.diagonal:
        (x, y), (u, v) = place((1.0, 1.0)), place((panel.x[2], panel.x[2]))
        parts.append(f'<path d="M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}" stroke="#94a3b8" stroke-dasharray="4 3"/>')
    for x, y in map(place, panel.ours):
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{OURS}" fill-opacity=".55"/>')
    for x, y in map(place, panel.theirs):
        parts.append(f'<path d="{cross(x, y)}" stroke="{THEIRS}" stroke-width="1.3"/>')
    return parts


def tick(power: int) -> str:
    return ("1", "10", "100", "1k", "10k", "100k", "1M")[power]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.workload_picture", description=__doc__)
    parser.add_argument("--public", type=Path, required=True, help="a dataset in the public layout")
    parser.add_argument("--out", type=Path, default=Path("docs/workloads.svg"))
    arguments = parser.parse_args()
    shown = panels(Dataset.open(default_path()), Dataset.open(arguments.public))
    arguments.out.write_text(draw(shown))
    for panel in shown:
        print(f"{panel.title}: {len(panel.ours)} workloads here, {len(panel.theirs)} public")


if __name__ == "__main__":
    main()
