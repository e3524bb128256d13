"""What this host is and what it can do at most: names, cache sizes, bandwidth, throughput."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

MAX_CLOCK_HZ = 6.5e9
MAX_FLOPS_A_CYCLE = 4096.0
"""No core of today does more, matrix extensions included."""
MAX_BYTES_A_CYCLE = 256.0
"""From the first-level cache, three loads and a store of 64 bytes."""
DEFAULT_L2_BYTES = 2 << 20


class Peaks(NamedTuple):
    """Measured on this host, all cores: what a well-made kernel can reach."""

    bytes_per_s: float
    flops_per_s: float


@cache
def cpu_name() -> str:
    """The processor's own name, as the device model of CPU traces."""
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "Hardware") and value.strip():
            return f"{value.strip()} ({core_count()} cores)"
    return f"{platform.machine()} ({core_count()} cores)"


def core_count() -> int:
    return len(os.sched_getaffinity(0))


@cache
def l2_bytes() -> int:
    """Second-level cache of all cores together."""
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cache/index2/size").read_text().strip()
        return int(text.removesuffix("K")) * 1024 * core_count()
    except (OSError, ValueError):
        return DEFAULT_L2_BYTES * core_count()


@cache
def libraries() -> dict[str, str]:
    """Versions of what a result depends on."""
    found = {"python": platform.python_version(), "kernelmill": metadata_version("kernelmill")}
    for package in ("torch", "numpy", "triton", "apache-tvm-ffi"):
        version = metadata_version(package)
        if version:
            found[package] = version
    return {name: version for name, version in found.items() if version}


def fingerprint(libs: Mapping[str, str]) -> str:
    """Of library versions: SHA-256 of their canonical JSON."""
    return hashlib.sha256(json.dumps(dict(libs), sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def metadata_version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


@cache
def peaks() -> Peaks:
    """A quick look (about 0.3 s): a large copy and a float32 matrix product."""
    import torch

    source = torch.ones(1 << 24)
    target = torch.empty_like(source)
    square = torch.ones(1024, 1024)
    copy_s = _best(lambda: target.copy_(source))
    product_s = _best(lambda: torch.mm(square, square))
    return Peaks(2 * source.numel() * 4 / copy_s, 2 * 1024**3 / product_s)


def _best(work: object, repeats: int = 7) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()  # type: ignore[operator]
        times.append(time.perf_counter() - start)
    return min(times)


def floor_s(bytes_moved: float, flops: float) -> float:
    """Below this no processor of these many cores can be: a measured time under it was not the work's."""
    cores = core_count()
    return max(
        bytes_moved / (cores * MAX_CLOCK_HZ * MAX_BYTES_A_CYCLE), flops / (cores * MAX_CLOCK_HZ * MAX_FLOPS_A_CYCLE)
    )
