"""Kernels as a table for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.table import Table
from rich.text import Text

from kernelmill.evaluator.tools.counters import Kernel
from kernelmill.evaluator.tools.roofline import kernel_bound

NAME_CHARS = 40
COLUMNS: dict[str, Callable[[Kernel], float | None]] = {
    "us": lambda kernel: kernel.seconds * 1e6,
    "read MB": lambda kernel: _mega(kernel.read_bytes),
    "write MB": lambda kernel: _mega(kernel.written_bytes),
    "dram %": lambda kernel: kernel.dram_pct,
    "sm %": lambda kernel: kernel.sm_pct,
    "tensor %": lambda kernel: kernel.tensor_pct,
    "occup. %": lambda kernel: kernel.occupancy_pct,
    "L2 hit %": lambda kernel: kernel.l2_hit_pct,
    "regs": lambda kernel: kernel.registers,
    "smem KB": lambda kernel: None if kernel.shared_bytes is None else kernel.shared_bytes / 1e3,
}


def kernel_table(kernels: Sequence[Kernel]) -> Table:
    """One row a launch. Names are foreign text: shown as they are, cut, never read as markup."""
    table = Table(box=None, pad_edge=False)
    table.add_column("kernel", no_wrap=True)
    for column in COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for kernel in kernels:
        name = kernel.name if len(kernel.name) <= NAME_CHARS else f"{kernel.name[: NAME_CHARS - 1]}…"
        numbers = [_number(read(kernel)) for read in COLUMNS.values()]
        table.add_row(Text(name), *numbers, kernel_bound(kernel))
    return table


def _mega(count: float | None) -> float | None:
    return None if count is None else count / 1e6


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"
