"""What the judge asks of a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from kernelmill.evaluator.cost import Work
from kernelmill.trace_schema import Environment

if TYPE_CHECKING:
    import torch

Kind = Literal["cpu", "cuda"]


class Lent(Protocol):
    """Memory that the judge owns and workers may map."""

    size: int
    writable: bool
    fd: int
    """Descriptor to send along; -1 where a handle is sent instead."""
    handle: str
    """What a worker opens it by; empty where a descriptor is sent."""

    @property
    def raw(self) -> torch.Tensor:
        """All of it, as bytes."""

    def tensor(self, offset: int, shape: Sequence[int], dtype: str) -> torch.Tensor:
        """The judge's view of a tensor in it."""

    def close(self) -> None: ...


class Named(Protocol):
    """What planning a run needs to know of a device, which another process may own."""

    @property
    def kind(self) -> Kind: ...

    @property
    def model(self) -> str: ...


class Device(Protocol):
    """One processor that kernels are judged on."""

    kind: Kind
    name: str
    """As torch names it: cpu, cuda:0."""
    target: str
    """What builders compile for: cpu, or an architecture such as sm_90."""
    nodes: tuple[str, ...]
    """Device files that a worker needs."""

    @property
    def model(self) -> str:
        """The name that traces give as their hardware."""

    @property
    def l2_bytes(self) -> int:
        """Size of the cache that is flushed between calls."""

    @property
    def memory_bytes(self) -> int:
        """All of its memory."""

    def free_bytes(self) -> int:
        """What is left of it."""

    def trim(self) -> None:
        """Give back what the judge itself holds and does not use."""

    def calibrate(self) -> None:
        """Measure what `roofline_s` and `floor_s` rest on: before foreign code is on the device."""

    def lend(self, size: int, *, writable: bool) -> Lent: ...

    def synchronize(self) -> None: ...

    def roofline_s(self, work: Work) -> float:
        """The time at the measured bandwidth and throughput."""

    def floor_s(self, work: Work) -> float:
        """Below this no call of this much work can be."""

    def environment(self, sandbox_kind: str, null_s: float) -> Environment: ...

    def check(self) -> None:
        """Raises InternalError where nothing may be measured now: another's processes, a failing device."""

    def close(self) -> None: ...
