"""What limits a solution: memory, arithmetic, or neither of them, against the peaks measured on this device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from kernelmill.evaluator.cost import Work
from kernelmill.evaluator.devices import Device
from kernelmill.evaluator.tools.counters import Kernel

Bound = Literal["memory-bound", "compute-bound", "latency-bound"]
BUSY = 0.6
"""A unit that works for a smaller share of the time is not what the program waits for."""


class Verdict(NamedTuple):
    """Of one call, all of its kernels together; times are the kernels' own, without the gaps between them."""

    bound: Bound
    seconds: float
    kernels: int
    roofline_s: float
    """The least time at the measured peaks."""
    memory_share: float
    """Of the measured bandwidth, with the bytes that really moved."""
    compute_share: float
    """Of the measured throughput, or how busy the multiprocessors were where that is more."""
    moved_bytes: float
    least_bytes: float
    least_flops: float

    @property
    def roofline_share(self) -> float:
        return self.roofline_s / self.seconds

    @property
    def text(self) -> str:
        return f"{self.bound}: {_REASONS[self.bound].format(**self._words())} {self._least()}"

    def _words(self) -> dict[str, str]:
        return {
            "time": microseconds(self.seconds),
            "moved": megabytes(self.moved_bytes),
            "memory": f"{self.memory_share:.0%}",
            "compute": f"{self.compute_share:.0%}",
        }

    def _least(self) -> str:
        plural = "" if self.kernels == 1 else "s"
        excess = self.moved_bytes / self.least_bytes if self.least_bytes else 1.0
        return (
            f"It takes {microseconds(self.seconds)} in {self.kernels} kernel{plural}; the roofline is at "
            f"{microseconds(self.roofline_s)} ({self.roofline_share:.0%} reached), and it moves {excess:.2f} times the "
            f"{megabytes(self.least_bytes)} that it must."
        )


_REASONS: dict[Bound, str] = {
    "memory-bound": "it moves {moved} in {time}, {memory} of the measured bandwidth (arithmetic {compute}). "
    "Only moving less makes it much faster.",
    "compute-bound": "arithmetic is {compute} busy (memory {memory}). Fewer or cheaper operations make it faster: "
    "tensor cores, a narrower type.",
    "latency-bound": "neither memory ({memory}) nor arithmetic ({compute}) is busy. The time goes into waiting: too "
    "few threads in flight, chains of dependent loads, launches of small kernels.",
}


def verdict(kernels: Sequence[Kernel], work: Work, calls: int, device: Device) -> Verdict:
    """`work` is the least of one call; `kernels` are those of `calls` calls."""
    seconds = sum(kernel.seconds for kernel in kernels) / calls
    moved = sum(moved_bytes(kernel, calls * work.bytes / len(kernels)) for kernel in kernels) / calls
    memory = device.roofline_s(Work(moved, 0.0)) / seconds
    busy = sum((kernel.sm_pct or 0.0) * kernel.seconds for kernel in kernels) / (100 * seconds * calls)
    compute = max(device.roofline_s(Work(0.0, work.flops)) / seconds, busy)
    least_s = device.roofline_s(work)
    return Verdict(bound(memory, compute), seconds, round(len(kernels) / calls), least_s, memory, compute, moved, *work)


def bound(memory: float, compute: float) -> Bound:
    """From the shares of the peaks, 1.0 for all of it."""
    if max(memory, compute) < BUSY:
        return "latency-bound"
    return "memory-bound" if memory >= compute else "compute-bound"


def kernel_bound(kernel: Kernel) -> Bound:
    """Of one kernel, by its own counters."""
    return bound((kernel.dram_pct or 0.0) / 100, max(kernel.sm_pct or 0.0, kernel.tensor_pct or 0.0) / 100)


def moved_bytes(kernel: Kernel, otherwise: float) -> float:
    if kernel.read_bytes is None and kernel.written_bytes is None:
        return otherwise
    return (kernel.read_bytes or 0.0) + (kernel.written_bytes or 0.0)


def microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us"


def megabytes(count: float) -> str:
    return f"{count / 1e6:.2f} MB"
