"""Judging by bursts end to end, on the CPU in place of a GPU: the same code, with nothing captured in graphs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kernelmill.evaluator import JudgeOptions
from kernelmill.evaluator.burst.sitting import BurstSitting
from kernelmill.evaluator.cost import Work
from kernelmill.evaluator.devices.cpu import Cpu
from kernelmill.evaluator.memory import Buffer
from kernelmill.evaluator.run import Forge
from kernelmill.evaluator.sandbox import Limits, open_sandbox, probe
from kernelmill.evaluator.sitting import Built
from kernelmill.trace_schema import Definition, Solution, Trace, Verdict, Workload
from tests.builders import raw_solution
from tests.evaluator.test_judge import DEFINITION, HONEST, SOURCES, WORKLOADS

pytestmark = pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")

LATE = """\
import os, threading, time, torch
N = torch.nn.functional.rms_norm

def late(calls):
    time.sleep(0.002)
    for x, w, out in calls:
        out.copy_(N(x, w.shape, w, 1e-5))

calls = []

def run(x, w, out):
    calls.append((x, w, out))
    if len(calls) == 8:
        threading.Thread(target=late, args=(list(calls),)).start()
        calls.clear()
"""


class Pretender(Cpu):
    """A CPU that is judged as a GPU is, with bursts of few calls and no floor."""

    def roofline_s(self, work: Work) -> float:
        return 5e-5

    def floor_s(self, work: Work) -> float:
        return 0.0


class Lender(Pretender):
    """As a GPU does, it lends memory to read that a worker can write to."""

    def lend(self, size: int, *, writable: bool) -> Buffer:
        return Buffer(size, writable=True)


def a_solution(name: str, source: str, passing: bool) -> Solution:
    raw = raw_solution(name=name, sources=[{"path": "main.py", "content": source}])
    raw["spec"] |= {"destination_passing_style": passing, "language": "python", "entry_point": "main.py::run"}
    return Solution.model_validate(raw)


def judge(
    solutions: Sequence[Solution],
    workloads: Sequence[Workload] = WORKLOADS,
    definition: Definition = DEFINITION,
    device: Cpu | None = None,
) -> dict[str, list[Trace]]:
    options = JudgeOptions(sessions=1, timeout_s=4.0, limits=Limits(memory_bytes=2 << 30, processes=64))
    forge = Forge(options)
    reference = forge.sitting(definition, a_solution("baseline", HONEST, True), None)
    sitting = BurstSitting(
        definition,
        reference._reference_artifact,
        Built(a_solution("baseline", HONEST, True), forge._build(a_solution("baseline", HONEST, True))),
        open_sandbox(),
        options,
        None,
        device or Pretender(),
    )
    found: dict[str, list[Trace]] = {solution.name: [] for solution in solutions}
    built = forge.build_all(solutions)
    for trace in sitting.traces([(one, workload) for workload in workloads for one in built]):
        found[trace.solution or ""].append(trace)
    return found


@pytest.fixture(scope="module")
def verdicts() -> dict[str, list[Trace]]:
    solutions = [a_solution(name, source, passing) for name, (source, passing, _, _) in SOURCES.items()]
    return judge([*solutions, a_solution("late", LATE, True)], WORKLOADS[:1])


@pytest.mark.parametrize("name", sorted(SOURCES.keys() - {"grandchild"}))  # one process a call is too many for a burst
def test_verdicts_are_those_of_single_calls(verdicts: dict[str, list[Trace]], name: str) -> None:
    _, _, verdict, reason = SOURCES[name]
    for trace in verdicts[name]:
        assert trace.evaluation is not None
        assert trace.evaluation.effective_verdict is verdict, trace.evaluation.reason
        assert reason in (trace.evaluation.reason or "")


def test_work_after_done_is_found(verdicts: dict[str, list[Trace]]) -> None:
    (trace,) = verdicts["late"]
    assert trace.evaluation and not trace.passed


def test_a_trace_says_by_which_clock_it_was_timed() -> None:
    """How long a call takes means little here: judge and worker both spin, beside whatever else this host does."""
    (trace, _) = judge([a_solution("honest", HONEST + "\n", True)])["honest"]
    assert trace.evaluation and trace.passed
    times, evidence = trace.evaluation.statistics, trace.evaluation.evidence
    assert times and times.n == JudgeOptions(sessions=1).rounds_min and times.median_ms and times.ratio
    assert evidence and "eager burst" in (evidence.clock or "") and (evidence.verified_calls or 0) > 30


ONCE = """\
import os, torch

done = []

def run(x, w, out):
    out.copy_(torch.nn.functional.rms_norm(x, w.shape, w, 1e-5))
    done.append(0)
    if len(done) == {call}:
        {target}.add_(1)
"""


@pytest.mark.parametrize("target", ["x", "w"])
@pytest.mark.parametrize("call", [1, 40], ids=["when seated", "in its turn"])
def test_who_writes_to_inputs_is_found_and_harms_nobody(target: str, call: int) -> None:
    """Its neighbours share that memory, the baseline too."""
    writer = a_solution("writer", ONCE.format(call=call, target=target), True)
    found = judge([writer, a_solution("honest", HONEST + "\n", True)], WORKLOADS[:1], device=Lender())
    (trace,) = found["writer"]
    assert trace.evaluation and trace.evaluation.effective_verdict is Verdict.CHEAT_DETECTED
    assert "inputs: wrote" in (trace.evaluation.reason or "")
    assert [trace.passed for trace in found["honest"]] == [True]
