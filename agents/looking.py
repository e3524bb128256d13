"""Looking into a kernel by ncu or compute-sanitizer; where they cannot, what can be said without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kernelmill.agents.outcome import shortened
from kernelmill.evaluator.builders import BuildError, UnsupportedHere
from kernelmill.evaluator.cost import work_of
from kernelmill.trace_schema import Solution
from kernelmill.trace_schema.errors import KernelMillError

if TYPE_CHECKING:
    from kernelmill.evaluator.case import Case
    from kernelmill.evaluator.devices import Device

DEADLINE_S = 600.0


def look(
    solution: Solution,
    case: Case,
    device: Device,
    with_tool: Literal["profile", "sanitize"],
    sandbox: Literal["bwrap", "none"],
) -> str:
    """Text for whoever wrote the kernel; never raises for what the kernel or this host cannot do."""
    least = roofline(case, device) if with_tool == "profile" else ""
    if device.kind == "cpu":
        said = (
            "hardware counters are read on GPUs only"
            if least
            else "guard bands of every output are checked by each judgement"
        )
        return f"{least}{said}"
    try:
        return least + (_profiled if with_tool == "profile" else _sanitized)(solution, case, device, sandbox)
    except (KernelMillError, BuildError, UnsupportedHere) as error:
        return shortened(f"{least}not looked into: {error}")


def roofline(case: Case, device: Device) -> str:
    """Least bytes, operations and time of one call."""
    work = work_of(case.definition, case.workload)
    device.calibrate()
    time_us = device.roofline_s(work) * 1e6
    axes = " ".join(f"{name}={size}" for name, size in case.workload.axes.items())
    return f"At {axes} a call moves at least {work.bytes:.4g} bytes in {work.flops:.4g} flops: {time_us:.4g} us.\n"


def _profiled(solution: Solution, case: Case, device: Device, sandbox: Literal["bwrap", "none"]) -> str:
    from kernelmill.evaluator.tools import profile, stage, tool

    found = tool.find(profile.NCU, profile.PACKAGE)
    with stage.set_stage(solution, case, device, sandbox=sandbox, timeout_s=DEADLINE_S) as set_up:
        made = profile.profile(set_up, found)
    slowest = sorted(made.kernels, key=lambda one: -one.seconds)[:5]
    rows = [f"{one.name[:80]}: {one.seconds * 1e6:.3g} us, dram {one.dram_pct} %, sm {one.sm_pct} %" for one in slowest]
    return "\n".join([made.verdict.text, *rows])


def _sanitized(solution: Solution, case: Case, device: Device, sandbox: Literal["bwrap", "none"]) -> str:
    from kernelmill.evaluator.tools import sanitize, stage, tool
    from kernelmill.evaluator.tools.findings import Checker

    found = tool.find(sanitize.SANITIZER, sanitize.PACKAGE)
    lines = []
    with stage.set_stage(solution, case, device, sandbox=sandbox, timeout_s=DEADLINE_S) as set_up:
        for checker in Checker:
            report = sanitize.sanitize(set_up, found, checker)
            lines += [f"{checker}: {one.kind} in {one.kernel} at {one.place}" for one in report.findings[:5]]
            if report.problem:
                lines.append(f"{checker}: {report.problem}")
    return "\n".join(lines) or "clean"
