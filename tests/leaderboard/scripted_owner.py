"""An owner that opens no device and runs nothing: each solution says in comments how it is to be judged.

`LocalExecutor(["cpu"], JudgeOptions(), owner="tests.leaderboard.scripted_owner")`. What it reads are lines of any
source, after `#` or `//`:

- `verdict: PASSED 2.0`: a verdict, and how many times as fast as the baseline; without it PASSED 1.0
- `sleep: 0.05`: seconds for each workload
- `die`: kill the owner at the first workload; once only where the variable DIED names a file, which it makes
- `harness_error`: fail as the judge's fault, without a trace
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from kernelmill.dataset import Dataset
from kernelmill.evaluator.cost import Work
from kernelmill.evaluator.devices.cpu import Cpu
from kernelmill.evaluator.executors.base import Charge, Seen, Unit
from kernelmill.evaluator.executors.owner import job_of
from kernelmill.evaluator.executors.serve import Follow, serve
from kernelmill.evaluator.judge import Outcome
from kernelmill.evaluator.reference import reference_solution
from kernelmill.evaluator.run import find_baseline
from kernelmill.evaluator.runner import Event, describe
from kernelmill.evaluator.trace_maker import Measured, Sitter, make_trace
from kernelmill.trace_schema import Definition, Solution, Trace, Verdict, Workload
from kernelmill.trace_schema.errors import DatasetError

MODEL = "Test CPU"
DIED = "KERNELMILL_TEST_DIED"
"""Environment variable: the file whose being there says that an owner has died already."""
BASELINE_S = 1e-3
REFERENCE_S = 4e-3
SESSIONS, PAIRS = 3, 12
LINE = re.compile(r"^\s*(?:#|//)\s*(verdict|sleep|die|harness_error)(?::\s*(.*?))?\s*$", re.MULTILINE)


class PaperCpu(Cpu):
    """A CPU that nothing is run on."""

    @property
    def model(self) -> str:
        return MODEL

    def roofline_s(self, work: Work) -> float:
        return BASELINE_S / 100

    def floor_s(self, work: Work) -> float:
        return BASELINE_S / 1000


@dataclass(frozen=True, slots=True)
class Script:
    """What a solution's comments say."""

    verdict: Verdict
    ratio: float
    sleep_s: float
    dies: bool
    fails: bool

    @classmethod
    def of(cls, solution: Solution) -> Script:
        said = {key: value for text in solution.files.values() for key, value in LINE.findall(text)}
        verdict, _, ratio = said.get("verdict", "PASSED").partition(" ")
        sleep_s = float(said.get("sleep", 0))
        return cls(Verdict(verdict), float(ratio or 1), sleep_s, "die" in said, "harness_error" in said)

    def play(self) -> Outcome:
        """Every session agrees within a hundredth: the interval is narrow and not empty."""
        if self.sleep_s:
            time.sleep(self.sleep_s)
        if self.dies and not _has_died():
            os.kill(os.getpid(), signal.SIGKILL)
        outcome = Outcome(verified_calls=SESSIONS)
        if self.verdict is not Verdict.PASSED:
            outcome.reject(self.verdict, f"scripted: {self.verdict}", "")
            return outcome
        mine = [BASELINE_S / self.ratio * (1 + 0.005 * (number % 3 - 1)) for number in range(PAIRS)]
        outcome.pairs = [[(seconds, BASELINE_S) for seconds in mine] for _ in range(SESSIONS)]
        return outcome


def main() -> None:
    serve(_take)


def _take(charge: Charge) -> tuple[Seen, Follow]:
    return Seen("cpu", MODEL), follow


def follow(do: str, unit: Unit) -> Iterator[Event]:
    try:
        dataset = Dataset.open(unit.dataset)
        job = job_of(dataset, unit)
        baseline = find_baseline(job.definition, dataset, PaperCpu()) or reference_solution(job.definition)
    except DatasetError as error:
        yield Event("dataset_error", f"{unit}: {error}")
        return
    if do == "build":
        count = len(job.solutions)
        yield from (Event("building", f"built {number} of {count}") for number in range(1, count + 1))
        return
    scripts = {solution.name: Script.of(solution) for solution in job.solutions}
    session = uuid4().hex
    yield from (Event("harness_error", f"{name}: scripted") for name, script in scripts.items() if script.fails)
    for workload in job.workloads:
        for solution in job.solutions:
            script = scripts[solution.name]
            if not script.fails and (solution.hash(), workload.hash()) not in job.done:
                trace = trace_of(job.definition, solution, workload, baseline, session)
                yield Event("trace", describe(trace), trace)


def trace_of(
    definition: Definition, solution: Solution, workload: Workload, baseline: Solution, session: str | None = None
) -> Trace:
    """The verdict that the solution's comments ask for."""
    sitter = Sitter(definition, baseline, session or uuid4().hex, "bwrap", PaperCpu())
    measured = Measured(REFERENCE_S, 0.0, Work(0.0, 0.0))
    return make_trace(sitter, workload, solution, Script.of(solution).play(), measured)


def _has_died() -> bool:
    """Whether an owner died before; from now on one has."""
    named = os.environ.get(DIED)
    if not named:
        return False
    died = Path(named).exists()
    Path(named).touch()
    return died
