"""What ncu measured: its CSV as one record a kernel, and the causes behind its refusals."""

from __future__ import annotations

import csv
import math
import re
from typing import NamedTuple

from kernelmill.trace_schema.errors import InternalError

METRICS = {
    "gpu__time_duration.sum": "seconds",
    "dram__bytes_read.sum": "read_bytes",
    "dram__bytes_write.sum": "written_bytes",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "dram_pct",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "sm_pct",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": "tensor_pct",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy_pct",
    "lts__t_sector_hit_rate.pct": "l2_hit_pct",
    "launch__registers_per_thread": "registers",
    "launch__shared_mem_per_block": "shared_bytes",
}
"""ncu's name of each counter that is asked for -> the field of a Kernel."""
HEADER = '"ID",'
PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
UNITS = {
    "": 1.0,
    "%": 1.0,
    "register/thread": 1.0,
    **{f"{prefix}byte{per}": scale for prefix, scale in PREFIXES.items() for per in ("", "/block")},
    **dict.fromkeys(("second", "s", "sec"), 1.0),
    **dict.fromkeys(("msecond", "ms"), 1e-3),
    **dict.fromkeys(("usecond", "us"), 1e-6),
    **dict.fromkeys(("nsecond", "ns"), 1e-9),
}
CAUSES = {
    "ERR_NVGPUCTRPERM": (
        "the driver keeps hardware counters to administrators, and nobody in the sandbox is one; open them to all: "
        "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/nvidia-counters.conf, "
        "then load the driver anew (or restart the host)"
    ),
    "LibraryNotLoaded|Failed to initialize the profiler": (
        "the driver shows no hardware counters here, as in containers that stand between the program and the driver "
        "(gVisor) or lack libnvidia-pcc.so; use a host or a virtual machine with a driver of its own"
    ),
    "driver is not compatible": (
        "this ncu and this driver do not fit; install the Nsight Compute of the driver's CUDA version (nvidia-smi "
        "names it)"
    ),
    "driver resource was unavailable": (
        "another program holds the hardware counters, often DCGM; stop it meanwhile: dcgmi profile --pause, "
        "and afterwards: dcgmi profile --resume"
    ),
    "No kernels were profiled": (
        "the solution launched no kernel from the process that was called; a solution that computes on the CPU or in "
        "another process has nothing to profile"
    ),
    "(?:Failed|Unable) to find metric|not find metric|[Uu]nknown metric": (
        "this ncu lacks a counter that is asked for on this GPU; install a newer Nsight Compute"
    ),
}
"""What ncu says -> what it means, and the way out."""


class Kernel(NamedTuple):
    """One launch. None: not counted on this GPU."""

    name: str
    grid: str
    block: str
    seconds: float
    read_bytes: float | None
    """From and to the device's memory, behind the second-level cache."""
    written_bytes: float | None
    dram_pct: float | None
    """Of what the data sheet allows, as every percentage here."""
    sm_pct: float | None
    tensor_pct: float | None
    occupancy_pct: float | None
    """Of the warps that could be resident."""
    l2_hit_pct: float | None
    registers: float | None
    """A thread."""
    shared_bytes: float | None
    """A block."""


def parse(output: str) -> list[Kernel]:
    """The kernels in ncu's `--csv --page raw`, in order; other lines around the table do not matter."""
    lines = output.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith(HEADER)]
    if not starts:
        return []
    try:  # the last table: what the program printed, of whatever form, came before it
        rows = list(csv.DictReader(line for line in lines[starts[-1] :] if line.startswith('"')))
    except csv.Error as error:
        raise InternalError(f"ncu's table cannot be read: {error}") from error
    units = rows[0] if rows and not rows[0].get("ID") else {}
    return [_kernel(row, units) for row in rows if row.get("ID")]


def _kernel(row: dict[str, str], units: dict[str, str]) -> Kernel:
    values = {field: _value(metric, row.get(metric), units.get(metric)) for metric, field in METRICS.items()}
    seconds = values.pop("seconds")
    if seconds is None:
        raise InternalError(f"ncu gave no time for {row.get('Kernel Name')}; see what it does by itself: ncu --version")
    return Kernel(
        row.get("Kernel Name") or "?", row.get("Grid Size") or "", row.get("Block Size") or "", seconds, **values
    )


def _value(metric: str, text: str | None, unit: str | None) -> float | None:
    try:
        number = float((text or "").replace(",", ""))
    except ValueError:  # n/a
        return None
    if (unit or "") not in UNITS:
        raise InternalError(f"ncu gave {metric} in {unit!r}, which is no unit known here; please report it")
    return number * UNITS[unit or ""] if math.isfinite(number) else None


def refusal(output: str) -> str | None:
    """ncu's own words and the way out, if it says something that is known."""
    said = "\n".join(line for line in output.splitlines() if not line.startswith('"'))
    for pattern, meaning in CAUSES.items():
        if found := re.search(f"^.*(?:{pattern}).*$", said, re.MULTILINE):
            words = re.sub(r"^==\w+== ", "", found[0].strip())
            return f"ncu said {words[:200]!r}: {meaning}"
    return None
