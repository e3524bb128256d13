"""From a device's name to the device."""

from __future__ import annotations

import platform
import re

from kernelmill.evaluator.devices.base import Device
from kernelmill.evaluator.devices.cpu import Cpu
from kernelmill.evaluator.devices.own import Owned, own
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


def device_names(text: str) -> list[str]:
    """The devices of a run: names separated by commas, or `all` for every GPU of this host. Each may be named once."""
    if text == "all":
        if not _gpus():
            raise InternalError("torch sees no NVIDIA GPU here; use --device cpu, or see: kernelmill doctor")
        return [f"cuda:{index}" for index in range(_gpus())]
    names = [name.strip() for name in text.split(",")]
    same = ["cuda:0" if name == "cuda" else name for name in names]
    for name in same:
        if same.count(name) > 1:
            raise InternalError(f"--device {text} names {name} twice; a device judges one thing at a time")
    if len(names) > 1 and "auto" in names:
        raise InternalError(f"--device {text}: auto stands alone; name the devices, or use all for every GPU")
    return names


def open_free(wanted: str) -> Device:
    """The first device of this kind or model that no judge on this host owns. For schedulers that give one away
    without saying which.

    Raises InternalError where there is none.
    """
    cpu = Cpu()
    if wanted in ("cpu", cpu.model):
        own("cpu")  # for as long as this process lives
        return cpu
    for index in range(_gpus()):
        import torch

        from kernelmill.evaluator.devices.cuda import Cuda

        if wanted in ("cuda", torch.cuda.get_device_properties(index).name):
            try:
                return Cuda(index)
            except Owned:
                continue
    raise InternalError(
        f"{platform.node()} has no {wanted} that is free; "
        "let it offer as many as it has, and leave them to this scheduler alone"
    )


def _gpus() -> int:
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0
