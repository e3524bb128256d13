"""One workload laid out for bursts: lengths, inputs of every slot in lent memory, a secret pool of known answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernelmill.evaluator.burst.contents import Content, Contents, StaticTensors
from kernelmill.evaluator.burst.layout import Layout, Region, words_of
from kernelmill.evaluator.case import Case, Tensor
from kernelmill.evaluator.compare.base import Comparator, Expectation
from kernelmill.evaluator.cost import Work, work_of
from kernelmill.evaluator.devices import Device
from kernelmill.evaluator.protocol import Burst
from kernelmill.evaluator.reference import Reference

if TYPE_CHECKING:
    import torch

TARGET_S = 1.5e-3
"""A long burst takes about so long with a kernel at the roofline: some eighty times what its start and end vary by."""
LEAST_CALL_S = 1.6e-6
MIN_CALLS, MAX_CALLS = 8, 640
SHARES = (16, 4, 1)
"""Bursts have these parts of all slots' calls. Kernels near the roofline play the last two, slow ones the first two."""
MEMORY_SHARE = 8
"""All slots of one workload together take at most this part of the device's memory."""
RESERVE_SHARE = 16
"""This part of the device's memory is left to the judge."""
PROBES = 3
SETTLE_STEP_S, SETTLED_S, SETTLE_DEADLINE_S = 0.05, 0.5, 15.0
"""A driver gives a dead worker's memory back by and by: free memory counts once it has not grown for so long."""
LATE_SHARE, LATE_S = 3.0, 1e-4
"""The last writes before a burst took so many times as long as the quickest ones, and this much longer: not alone."""


class VerifiedSet(NamedTuple):
    """Inputs whose right answer is known to the judge alone."""

    content: Content
    expectation: Expectation


class Plan(NamedTuple):
    """What must be known of a workload before memory is taken for the whole sitting."""

    case: Case
    slots: int
    copies: int
    """Of each static and captured input: enough that a rotation walks over more than twice the cache."""

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(max(number + 1, self.slots // share) for number, share in enumerate(SHARES))

    def input_layout(self) -> Layout:
        tensors = [tensor for tensor in self.case.tensors if tensor.role != "inout"]
        return Layout(tensors, {t.name: self.copies if self.is_fixed(t) else self.slots for t in tensors})

    def output_layout(self) -> Layout:
        updated = [tensor for tensor in self.case.tensors if tensor.role == "inout"]
        tensors = [*self.case.passed_outputs, *updated]
        return Layout(tensors, {tensor.name: self.slots for tensor in tensors})

    def is_fixed(self, tensor: Tensor) -> bool:
        captured = tensor.name in self.case.fixed and not tensor.dtype.startswith("int")
        return tensor.role == "static" or captured


def plan(case: Case, device: Device) -> Plan:
    """How many calls a burst of this workload has on this device."""
    work = work_of(case.definition, case.workload)
    call_s = max(LEAST_CALL_S, device.roofline_s(work))
    moving = sum(t.size_bytes for t in (*case.tensors, *case.outputs) if t.role != "static") + (1 << 12)
    wanted = min(MAX_CALLS, max(MIN_CALLS, int(TARGET_S / call_s)))
    slots = max(len(SHARES), min(wanted, device.memory_bytes // MEMORY_SHARE // moving))
    every = sum(tensor.size_bytes for tensor in (*case.tensors, *case.outputs)) + (1 << 10)
    copies = max(1, min(slots, -(-2 * device.l2_bytes // every) + 1))
    return Plan(case, slots, copies)


class Board:
    """What all contestants share on one workload. `region` is the sitting's input memory."""

    def __init__(
        self,
        planned: Plan,
        device: Device,
        region: Region,
        reference: Reference,
        comparator: Comparator,
        static: StaticTensors,
        verified: int,
    ) -> None:
        self.case = planned.case
        self.lengths = planned.lengths
        self.comparator = comparator
        self.work: Work = work_of(planned.case.definition, planned.case.workload)
        self.contents = Contents(planned.case, static, device.name, planned.slots)
        self._plan = planned
        self._device = device
        self._region = region
        self._reference = reference
        self._layout = planned.input_layout()
        region.adopt(self._layout)
        self._fill_fixed()
        self.reference_s = float("inf")
        reference.prepare(self.case, self.contents)
        self.null_s = reference.null_seconds()
        self.pool = [self.solve(self.contents.one()) for _ in range(verified)]
        self._flush = Flush(device)
        self._quickest: dict[int, float] = {}
        self.late = 0
        """How many bursts' inputs were not written as quickly as a device does that runs nothing else."""

    @property
    def output_names(self) -> list[str]:
        return [tensor.name for tensor in self.case.passed_outputs]

    def output_layout(self) -> Layout:
        return self._plan.output_layout()

    def _fill_fixed(self) -> None:
        for name, value in self.contents.fixed.items():
            values = self._region.values(name)
            values.copy_(value.expand_as(values))

    def solve(self, content: Content) -> VerifiedSet:
        """The right answer to some content."""
        truth = self._reference.answer(self.contents, content)
        self.reference_s = min(self.reference_s, truth.seconds)
        return VerifiedSet(content, self.comparator.prepare(self.case, self.contents.copy(content), truth))

    @property
    def _lent(self) -> list[Tensor]:
        """Dynamic inputs in the shared region; those updated in place lie in each contestant's own."""
        return [tensor for tensor in self.contents.dynamic if tensor.role != "inout"]

    def restore(self, own: Region, count: int) -> None:
        """Write the inputs that a contestant updates in place."""
        for tensor in self.contents.dynamic:
            if tensor.role == "inout":
                own.values(tensor.name)[:count].copy_(self.contents.batch[tensor.name][:count])

    def expose(self, count: int) -> None:
        """Write the inputs of the first `count` slots into lent memory, last of all, and flush the cache."""
        self._flush.run()
        seconds = self._flush.timed(lambda: self._write(count))
        quickest = self._quickest[count] = min(self._quickest.get(count, seconds), seconds)
        if seconds > LATE_SHARE * quickest + LATE_S:
            self.late += 1

    def _write(self, count: int) -> None:
        for tensor in self._lent:
            self._region.values(tensor.name)[:count].copy_(self.contents.batch[tensor.name][:count])
        self._flush.run()

    @property
    def is_short(self) -> bool:
        """Whether less memory is left than the judge itself may come to need, the rest of its own given back."""
        reserve = self._device.memory_bytes // RESERVE_SHARE
        if self._device.free_bytes() >= reserve:
            return False
        self._device.trim()
        return self._device.free_bytes() < reserve

    def settled_free_bytes(self) -> int:
        """Free bytes of the device, once they grow no more."""
        free, since, begin = self._device.free_bytes(), time.monotonic(), time.monotonic()
        while time.monotonic() < min(since + SETTLED_S, begin + SETTLE_DEADLINE_S):
            time.sleep(SETTLE_STEP_S)
            if (now := self._device.free_bytes()) > free:
                since = time.monotonic()
            free = now
        return free

    def is_busy(self) -> bool:
        """Whether the device does something else than the judge's work now: its own takes longer than it ever did."""
        return all(self._flush.is_slow() for _ in range(PROBES))

    def scrub(self) -> None:
        """Between turns nobody finds the next burst's inputs in lent memory."""
        for tensor in self._lent:
            self._region.words(tensor.name).zero_()

    def altered(self, count: int) -> Iterator[torch.Tensor]:
        """For all that only the judge may write whether it is no longer as it left it; nothing is waited for."""
        for tensor in self._lent:
            batch = bits_of(self.contents.batch[tensor.name], tensor.size_bytes)
            yield (batch[:count] != self._region.words(tensor.name)[:count]).any()
        for name, value in self.contents.fixed.items():
            yield (self._region.words(name) != bits_of(value, value.nbytes)).any()
        yield from self._region.broken_guards()

    def is_altered(self) -> bool:
        """Whether anybody wrote into what all slots hold, inputs exposed; waits for the device."""
        return any(bool(flag) for flag in list(self.altered(max(self.lengths))))

    def mend(self) -> None:
        """Write anew what only the judge may write and no `expose` writes."""
        self._region.adopt(self._layout)
        self._fill_fixed()

    def request(self, own: Region, layout: Layout, *, passed: bool) -> tuple[Burst, list[int]]:
        """The message and descriptors that lend this workload to a worker's target 0.

        `passed`: outputs are arguments. Else the callable returns all of them, and they are stored where they belong.
        """
        stored = self.case.passed_outputs if passed else self.case.stored_outputs

        def place(tensor: Tensor) -> object:
            if tensor.name in layout.rows:
                return layout.strided(tensor.name, 1)
            return self._layout.strided(tensor.name, 0)

        buffers = (self._region.buffer, own.buffer)
        request = Burst(
            0,
            tuple(buffer.size for buffer in buffers),
            tuple(buffer.writable for buffer in buffers),
            tuple(buffer.handle for buffer in buffers),
            self.lengths,
            tuple(place(a) if isinstance(a, Tensor) else a for a in self.case.inputs),  # type: ignore[misc]
            tuple(place(tensor) for tensor in stored),  # type: ignore[misc]
        )
        return request, [buffer.fd for buffer in buffers if buffer.fd >= 0]

    def close(self) -> None:
        self._reference.release()


def bits_of(values: torch.Tensor, size: int) -> torch.Tensor:
    """[copies, words] over contiguous values, of which each copy has `size` bytes."""
    import torch

    raw = values.contiguous().view(-1).view(torch.uint8)
    return words_of(raw, size, raw.numel() // max(1, size), size)


class Flush:
    """Pushes everything out of the cache, and times what is written just before."""

    def __init__(self, device: Device) -> None:
        import torch

        self._device = device
        self._memory = torch.zeros(2 * device.l2_bytes // 8, dtype=torch.int64, device=device.name)

        self._quickest = float("inf")

    def run(self) -> None:
        self._memory.add_(1)

    def is_slow(self) -> bool:
        """Whether a flush, waited for, takes much longer than the quickest so far. A CPU's judge cannot tell: never."""
        if self._device.kind == "cpu":
            return False
        start = time.perf_counter()
        self.run()
        self._device.synchronize()
        seconds = time.perf_counter() - start
        self._quickest = min(self._quickest, seconds)
        return seconds > LATE_SHARE * self._quickest + LATE_S

    def timed(self, work: Callable[[], None]) -> float:
        """Seconds on the device's own clock; waits until it is done. A CPU has no queue to stand in: 0."""
        import torch

        if self._device.kind == "cpu":
            work()
            return 0.0
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        work()
        end.record()
        self._device.synchronize()
        return float(begin.elapsed_time(end)) / 1e3


def most(plans: Sequence[Plan]) -> tuple[int, int]:
    """Bytes of input and output memory that every one of these workloads fits into."""
    spare = 1 << 16
    return (
        max(planned.input_layout().size for planned in plans) + spare,
        max(planned.output_layout().size for planned in plans) + spare,
    )
