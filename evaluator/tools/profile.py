"""`kernelmill profile`: hardware counters of a solution's kernels by ncu, and what limits it."""

from __future__ import annotations

from typing import NamedTuple

from kernelmill.evaluator.cost import work_of
from kernelmill.evaluator.tools import counters
from kernelmill.evaluator.tools.counters import METRICS, Kernel
from kernelmill.evaluator.tools.roofline import Verdict, verdict
from kernelmill.evaluator.tools.stage import Stage, failure
from kernelmill.evaluator.tools.tool import Tool
from kernelmill.trace_schema.errors import InternalError, SubmissionError

NCU = "ncu"
PACKAGE = "NVIDIA Nsight Compute"
WARMUPS, CALLS = 2, 1
"""The first calls compile, choose among variants and set libraries up; the next one is looked at."""
ARGUMENTS = (
    *("--clock-control", "none"),  # the clocks stay what they are while a judge measures
    *("--profile-from-start", "off"),  # the player says when
    *("--target-processes", "application-only"),
    *("--csv", "--page", "raw", "--print-units", "base"),
    *("--metrics", ",".join(METRICS)),
)
ENV = {
    "NV_COMPUTE_PROFILER_LOCAL_CONNECTION_OVERRIDE": "uds",  # the sandbox has no network
    "NV_COMPUTE_PROFILER_DISABLE_STOCK_FILE_DEPLOYMENT": "1",
}


class Profile(NamedTuple):
    """One call of a solution."""

    kernels: list[Kernel]
    verdict: Verdict


def profile(stage: Stage, tool: Tool) -> Profile:
    """Raises InternalError where counters cannot be read, with the way out; SubmissionError if the solution fails."""
    done = stage.play(tool, ARGUMENTS, warmups=WARMUPS, calls=CALLS, env=ENV)
    whole = not done.timed_out and done.limit is None
    kernels = counters.parse(done.output) if whole and done.returncode == 0 else []
    if kernels:
        return Profile(
            kernels, verdict(kernels, work_of(stage.case.definition, stage.case.workload), CALLS, stage.device)
        )
    if whole and (refused := counters.refusal(done.output)):
        raise InternalError(refused)
    raise SubmissionError(f"the solution did not play to its end under ncu: {failure(done, stage.timeout_s)}")
