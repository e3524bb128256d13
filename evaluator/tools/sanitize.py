"""`kernelmill sanitize`: memory, race and synchronisation errors of a solution's kernels, by compute-sanitizer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kernelmill.evaluator.sandbox import Completed
from kernelmill.evaluator.tools.findings import Checker, Finding, parse
from kernelmill.evaluator.tools.stage import Stage, failure
from kernelmill.evaluator.tools.tool import Tool

SANITIZER = "compute-sanitizer"
PACKAGE = "NVIDIA Compute Sanitizer"
ERROR_CODE = 86
"""What compute-sanitizer ends with after it found something."""
ARGUMENTS = (
    *("--error-exitcode", str(ERROR_CODE)),
    *("--target-processes", "application-only"),
    *("--show-backtrace", "device"),  # the host's side is the player's and torch's
    *("--report-api-errors", "no"),  # torch asks the driver for what older ones lack, and copes
)
ENV = {
    "NV_COMPUTE_SANITIZER_LOCAL_CONNECTION_OVERRIDE": "uds",  # the sandbox has no network
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",  # each tensor an allocation of its own, so that its end is an end
}
CAUSES = {
    "Device not supported": (
        "this GPU cannot be instrumented here, as in containers that stand between the program and the driver "
        "(gVisor); use a host or a virtual machine with a driver of its own"
    ),
    "No attachable process found": "the program did not start below it in time; run it again on a quieter machine",
    "Internal Sanitizer Error": "install the compute-sanitizer of the driver's CUDA version (nvidia-smi names it)",
}


class Report(NamedTuple):
    """What one checker found. `problem`: why it could not look, or not to the end."""

    checker: Checker
    findings: Sequence[Finding]
    problem: str | None


def sanitize(stage: Stage, tool: Tool, checker: Checker) -> Report:
    """One call, instrumented: tens of times slower than without."""
    done = stage.play(tool, ("--tool", checker.value, *ARGUMENTS), warmups=0, calls=1, env=ENV)
    found = parse(done.output)
    return Report(checker, found, None if found and done.limit is None else _problem(done, stage.timeout_s))


def _problem(done: Completed, timeout_s: float) -> str | None:
    if done.returncode == 0 and not done.timed_out and done.limit is None:
        return None
    for pattern, meaning in CAUSES.items():
        if found := re.search(f"^=+ (.*{pattern}.*)$", done.output, re.MULTILINE):
            return f"{SANITIZER} said {found[1][:200]!r}: {meaning}"
    return f"the solution did not play to its end: {failure(done, timeout_s)}"
