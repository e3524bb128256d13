"""One NVIDIA GPU: its memory, its limits, its state, and the lock that makes one judge its only owner."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from kernelmill.evaluator import driver, machine
from kernelmill.evaluator.cost import Work
from kernelmill.evaluator.devices.base import Device, Kind
from kernelmill.evaluator.devices.health import Health
from kernelmill.evaluator.devices.own import own
from kernelmill.trace_schema import Device as DeviceRecord
from kernelmill.trace_schema import Environment
from kernelmill.trace_schema.errors import InternalError

if TYPE_CHECKING:
    import torch

    from kernelmill.evaluator.devices.stream import StreamTimes

CONTROL_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
FLOOR_SHARE = 0.75
"""Of the time that a plain stream of the same bytes, half of them written, takes in the same kind of burst; a kernel
that reads more than it writes was honest at 0.87.
"""
FLOOR_SLACK_S = 5e-7
"""So much less than the stream a small kernel may take: there it is launches that are timed, more than bytes, and an
honest kernel was 0.22 us below a stream of 1.82 us.
"""
COPY_BYTES = 1 << 30
SQUARE = 8192


class Block:
    """One allocation of its own, lent by its handle."""

    fd = -1

    def __init__(self, size: int, device: str) -> None:
        self.size = -(-max(size, 1) // driver.GRANULE) * driver.GRANULE
        self.writable = True
        """Always: memory opened by a handle cannot be protected, so inputs are compared afterwards."""
        self._pointer = driver.allocate(self.size)
        self.handle = driver.export(self._pointer)
        self.raw: torch.Tensor = driver.bytes_at(self._pointer, self.size, device)
        self.raw.zero_()  # what the driver hands out is not always empty

    def tensor(self, offset: int, shape: Sequence[int], dtype: str) -> torch.Tensor:
        from kernelmill.evaluator.dtypes import view

        return view(self.raw, offset, shape, dtype)

    def close(self) -> None:
        if self._pointer:
            self.raw.zero_()
            self.raw = self.raw[:0]
            driver.free(self._pointer)
            self._pointer = 0


class Cuda(Device):
    """Memory is lent as handles of blocks of their own."""

    kind: Kind = "cuda"

    def __init__(self, index: int) -> None:
        import torch

        self.name = f"cuda:{index}"
        self.nodes = (f"/dev/nvidia{index}", *CONTROL_NODES)
        self._properties = torch.cuda.get_device_properties(index)
        self._lock = own(f"gpu-{self._properties.uuid}")  # first: a context would disturb the judge who has it
        torch.cuda.set_device(index)
        torch.zeros(1, device=self.name)  # makes the context that the driver's calls use
        self.target = f"sm_{self._properties.major}{self._properties.minor}"
        self.health = Health(index)

    @property
    def model(self) -> str:
        return str(self._properties.name)

    @property
    def l2_bytes(self) -> int:
        return int(self._properties.L2_cache_size)

    @property
    def memory_bytes(self) -> int:
        return int(self._properties.total_memory)

    def free_bytes(self) -> int:
        import torch

        return int(torch.cuda.mem_get_info()[0])

    def trim(self) -> None:
        import torch

        torch.cuda.empty_cache()

    def calibrate(self) -> None:
        assert self._peaks and self.stream  # each measures itself when first asked for

    def lend(self, size: int, *, writable: bool) -> Block:
        try:
            return Block(size, self.name)
        except driver.DriverError as error:
            raise InternalError(
                f"{self.name} has no {size >> 20} MiB to lend: {error}; free it and run again"
            ) from error

    def synchronize(self) -> None:
        import torch

        torch.cuda.synchronize()

    @cached_property
    def _peaks(self) -> machine.Peaks:
        """A large copy, and a large bfloat16 product."""
        import torch

        source = torch.randint(-100, 100, (COPY_BYTES,), dtype=torch.int8, device=self.name)
        target = torch.empty_like(source)
        square = torch.randn(SQUARE, SQUARE, device=self.name, dtype=torch.bfloat16)
        copy_s = self._best(lambda: target.copy_(source))
        product_s = self._best(lambda: torch.mm(square, square))
        return machine.Peaks(2 * COPY_BYTES / copy_s, 2 * SQUARE**3 / product_s)

    def _best(self, work: Callable[[], object], repeats: int = 5) -> float:
        times = []
        for _ in range(repeats):
            self.synchronize()
            start = time.perf_counter()
            work()
            self.synchronize()
            times.append(time.perf_counter() - start)
        return min(times)

    @cached_property
    def stream(self) -> StreamTimes:
        from kernelmill.evaluator.devices.stream import StreamTimes

        return StreamTimes(self.name, self.l2_bytes)

    def roofline_s(self, work: Work) -> float:
        return max(work.bytes / self._peaks.bytes_per_s, work.flops / self._peaks.flops_per_s)

    def floor_s(self, work: Work) -> float:
        """Products may be in a type of half the width of the measured peak's."""
        stream_s = self.stream.seconds(work.bytes)
        return max(min(FLOOR_SHARE * stream_s, stream_s - FLOOR_SLACK_S), work.flops / (4 * self._peaks.flops_per_s))

    def environment(self, sandbox_kind: str, null_s: float) -> Environment:
        return Environment(
            hardware=self.model,
            libs={**machine.libraries(), **self.health.versions()},
            device=DeviceRecord(name=self.model, arch=self.target, count=1),
            clocks={"null_call_us": round(null_s * 1e6, 2), **self.health.state()},
            sandbox=sandbox_kind,
        )

    def check(self) -> None:
        self.health.check()

    def close(self) -> None:
        os.close(self._lock)
