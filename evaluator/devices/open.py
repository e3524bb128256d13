"""From a device's name to the device."""

from __future__ import annotations

import re

from kernelmill.evaluator.devices.base import Device
from kernelmill.evaluator.devices.cpu import Cpu
from kernelmill.trace_schema.errors import InternalError

NAMED = re.compile(r"cpu|cuda(?::(\d+))?")


def open_device(name: str = "cpu") -> Device:
    """`cpu`, `cuda`, `cuda:1`, or `auto`: the first GPU where there is one, else the CPU.

    Raises InternalError for a device that is not there, or that another judge owns.
    """
    if name == "auto":
        name = "cuda" if _gpus() else "cpu"
    found = NAMED.fullmatch(name)
    if found is None:
        raise InternalError(f"no device is called {name!r}; use cpu, cuda, cuda:1 or auto")
    if name == "cpu":
        return Cpu()
    from kernelmill.evaluator.devices.cuda import Cuda

    index, count = int(found[1] or 0), _gpus()
    if index >= count:
        have = f"this host has {count}" if count else "torch sees no NVIDIA GPU here"
        raise InternalError(f"device {name!r} cannot be used: {have}; use --device cpu, or see: kernelmill doctor")
    return Cuda(index)


def _gpus() -> int:
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0
