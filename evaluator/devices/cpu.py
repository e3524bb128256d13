"""This host's CPU, all cores together."""

from __future__ import annotations

import os
import platform

from kernelmill.evaluator import machine
from kernelmill.evaluator.cost import Work
from kernelmill.evaluator.devices.base import Device, Kind
from kernelmill.evaluator.memory import Buffer
from kernelmill.trace_schema import Device as DeviceRecord
from kernelmill.trace_schema import Environment


class Cpu(Device):
    """Memory is lent as sealed anonymous files."""

    kind: Kind = "cpu"
    name = target = "cpu"
    nodes: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        return machine.cpu_name()

    @property
    def l2_bytes(self) -> int:
        return machine.l2_bytes()

    @property
    def memory_bytes(self) -> int:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def free_bytes(self) -> int:
        """As if nobody took any: a sandbox's own limit keeps workers from it."""
        return self.memory_bytes

    def trim(self) -> None:
        pass

    def calibrate(self) -> None:
        machine.peaks()

    def lend(self, size: int, *, writable: bool) -> Buffer:
        return Buffer(size, writable=writable)

    def synchronize(self) -> None:
        return

    def roofline_s(self, work: Work) -> float:
        peaks = machine.peaks()
        return max(work.bytes / peaks.bytes_per_s, work.flops / peaks.flops_per_s)

    def floor_s(self, work: Work) -> float:
        return machine.floor_s(work.bytes, work.flops)

    def environment(self, sandbox_kind: str, null_s: float) -> Environment:
        """`null_s` is what judging an empty call costs, part of every time."""
        return Environment(
            hardware=self.model,
            libs=machine.libraries(),
            device=DeviceRecord(name=self.model, arch=platform.machine(), count=1),
            clocks={"threads": machine.core_count(), "null_call_us": round(null_s * 1e6, 2)},
            sandbox=sandbox_kind,
        )

    def check(self) -> None:
        return

    def close(self) -> None:
        return
