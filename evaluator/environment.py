"""The `environment` of a trace: where a result was measured."""

from __future__ import annotations

import platform

from kernelmill.evaluator import machine
from kernelmill.trace_schema import Device, Environment


def environment(sandbox_kind: str, null_s: float) -> Environment:
    """This host as a CPU device. `null_s` is what judging an empty call costs, part of every time."""
    name = machine.cpu_name()
    return Environment(
        hardware=name,
        libs=machine.libraries(),
        device=Device(name=name, arch=platform.machine(), count=1),
        clocks={"threads": machine.core_count(), "null_call_us": round(null_s * 1e6, 2)},
        sandbox=sandbox_kind,
    )
