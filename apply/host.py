"""This machine, as traces name it."""

from __future__ import annotations

from dataclasses import dataclass

from kernelmill.evaluator import machine


@dataclass(frozen=True, slots=True)
class Host:
    """What traces must match."""

    kind: str
    model: str
    arch: str
    libs: dict[str, str]

    @property
    def fingerprint(self) -> str:
        return machine.fingerprint(self.libs)


def this_host(device: str = "auto") -> Host:
    from kernelmill.evaluator.devices import open_device

    opened = open_device(device)
    try:
        environment = opened.environment("none", 0.0)
        arch = environment.device.arch if environment.device else None
        return Host(opened.kind, opened.model, arch or "", dict(environment.libs))
    finally:
        opened.close()


def device_of(name: str = "auto") -> tuple[str, str]:
    """The device that this process serves on, as torch names it, and its model; without claiming it for a judge."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cpu":
        return name, machine.cpu_name()
    index = torch.device(name).index or torch.cuda.current_device()
    return f"cuda:{index}", torch.cuda.get_device_properties(index).name
