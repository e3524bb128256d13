"""One call that is kept: sizes and numbers as they were, and copies of the tensors that a workload stores."""

from __future__ import annotations

import ctypes
import functools
import time
from dataclasses import dataclass
from typing import Any

from kernelmill.trace_schema import Definition, DType

INDICES = frozenset({DType.INT16, DType.INT32, DType.INT64, DType.BOOL})
"""Types whose values decide what is computed; int8 is quantised data."""


@dataclass(slots=True)
class Sample:
    """Made in the caller's thread, finished and judged by the writer."""

    axes: dict[str, int]
    scalars: dict[str, bool | int | float]
    absent: frozenset[str]
    """Optional inputs that were None."""
    tensors: dict[str, Any]
    """Private copies: in the host's memory, or still on their device."""
    bytes: int = 0
    event: Any = None
    """Recorded after the copies, where they are on a device."""
    is_judged: bool = False
    fault: str | None = None
    """Why it cannot be a workload, as far as it was looked at."""

    def finish(self, deadline_s: float) -> bool:
        """Brings copies from the device, off the caller's thread. False where the device is not done in time."""
        if self.event is not None:
            _relax()
            deadline = time.monotonic() + deadline_s
            while not self.event.query():
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.001)
            self.tensors = {name: tensor.cpu() for name, tensor in self.tensors.items()}
            self.event = None
        return True


def stored_of(definition: Definition, by_value: frozenset[str]) -> tuple[str, ...]:
    """Inputs whose values are kept: whole numbers always, others where they are named."""
    return tuple(
        name
        for name, spec in definition.inputs.items()
        if spec.shape is not None and (spec.dtype in INDICES or name in by_value)
    )


def is_capturing(tensor: Any) -> bool:
    """Whether a CUDA graph is being recorded: then nothing may be copied, for the copy would become part of it."""
    import torch

    return bool(tensor.is_cuda) and torch.cuda.is_current_stream_capturing()


def copies(tensors: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Copies, and the event after which those on a device are whole. The caller waits for nothing."""
    import torch

    with torch.no_grad():
        made = {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    event = None
    device = next((tensor.device for tensor in made.values() if tensor.is_cuda), None)
    if device is not None:
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(device))
    return made, event


@functools.cache
def _runtime() -> Any:
    """CUDA's own, which torch has loaded."""
    import torch

    return ctypes.CDLL(f"libcudart.so.{(torch.version.cuda or '').partition('.')[0]}")


def _relax() -> None:
    """Lets this thread ask the device while another one records a graph, whose recording it would break otherwise."""
    mode = ctypes.c_int(2)  # cudaStreamCaptureModeRelaxed
    if status := _runtime().cudaThreadExchangeStreamCaptureMode(ctypes.byref(mode)):
        raise RuntimeError(f"CUDA error {status}: this thread could not be kept out of graph captures")
