"""The judge end to end: sandboxed workers, real calls, and the trace that comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kernelmill.evaluator import JUDGE_VERSION, JudgeOptions, evaluate
from kernelmill.evaluator.sandbox import Limits, probe
from kernelmill.trace_schema import Definition, Evaluation, Solution, Trace, Verdict, Workload
from kernelmill.trace_schema.errors import DatasetError
from tests.builders import raw_definition, raw_solution, raw_workload

pytestmark = pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")

DEFINITION = Definition.model_validate(raw_definition())
WORKLOADS = [Workload.model_validate(raw_workload(uuid=f"rows-{rows}", axes={"batch_size": rows})) for rows in (4, 33)]
HONEST = """\
import torch

def run(hidden_states, weight, output):
    output.copy_(torch.nn.functional.rms_norm(hidden_states, weight.shape, weight, 1e-5))
"""
HEAD = "import torch, os, sys, subprocess, time\nN = torch.nn.functional.rms_norm\n"


def body(code: str, *, arguments: str = "hidden_states, weight, output", honest: bool = False) -> str:
    last = "    output.copy_(N(hidden_states, weight.shape, weight, 1e-5))\n" if honest else ""
    return f"{HEAD}def run({arguments}):\n    {code}\n{last}"


SOURCES = {
    "honest": (HONEST, True, Verdict.PASSED, ""),
    "value_returning": (
        body("return N(hidden_states, weight.shape, weight, 1e-5)", arguments="hidden_states, weight"),
        False,
        Verdict.PASSED,
        "",
    ),
    "nothing": (body("pass"), True, Verdict.INCORRECT_NUMERICAL, "unwritten"),
    "zeros": (body("output.zero_()"), True, Verdict.INCORRECT_NUMERICAL, "rms error"),
    "nan": (body("output.fill_(float('nan'))"), True, Verdict.INCORRECT_NUMERICAL, "NaN"),
    "raises": (body("raise ValueError('no luck')"), True, Verdict.RUNTIME_ERROR, "ValueError: no luck"),
    "raises_what_no_database_bears": (
        body("raise ValueError('a\\0b\\ud800\\033[2Jc')"),
        True,
        Verdict.RUNTIME_ERROR,
        "a\\x00b\\ud800\\x1b[2Jc",
    ),
    "wrong_shape": (
        body("return hidden_states[:1]", arguments="hidden_states, weight"),
        False,
        Verdict.INCORRECT_SHAPE,
        "[1, 8], not",
    ),
    "wrong_dtype": (
        body("return hidden_states.double()", arguments="hidden_states, weight"),
        False,
        Verdict.INCORRECT_DTYPE,
        "float64",
    ),
    "returns_nothing": (
        body("pass", arguments="hidden_states, weight"),
        False,
        Verdict.INCORRECT_SHAPE,
        "returned 0 values",
    ),
    "exits": (body("os._exit(0)"), True, Verdict.RUNTIME_ERROR, "exited with code 0"),
    "segfaults": (body("import ctypes; ctypes.string_at(0)"), True, Verdict.RUNTIME_ERROR, "signal 11"),
    "writes_inputs": (body("hidden_states.zero_()", honest=True), True, Verdict.RUNTIME_ERROR, "signal 11"),
    "floods": (
        body("print('x' * 1_000_000, flush=True)", honest=True),
        True,
        Verdict.RESOURCE_EXCEEDED,
        "log limit",
    ),
    "grandchild": (
        body("os.fork() or (os.setsid(), time.sleep(300))", honest=True),
        True,
        Verdict.PASSED,
        "",
    ),
    "hangs": (body("time.sleep(300)"), True, Verdict.TIMEOUT, "deadline"),
    "syntax": ("def run(:\n", True, Verdict.COMPILE_ERROR, "SyntaxError"),
    "no_symbol": ("x = 1\n", True, Verdict.RUNTIME_ERROR, "run"),
}


def solution(name: str, source: str, *, dps: bool = True, **over: Any) -> Solution:
    spec = {"destination_passing_style": dps}
    return Solution.model_validate(raw_solution(name=name, source=source, spec=spec, **over))


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> JudgeOptions:
    cache = tmp_path_factory.mktemp("cache")
    limits = Limits(output_bytes=1 << 19)
    return JudgeOptions(sessions=1, pairs=6, pairs_min=6, seconds=0.1, timeout_s=4, limits=limits, cache=cache)


@pytest.fixture(scope="module")
def traces(options: JudgeOptions) -> dict[str, list[Trace]]:
    baseline = solution("torch_rms_norm", HONEST, author="baseline")
    entries = [solution(name, source, dps=dps) for name, (source, dps, _, _) in SOURCES.items()]
    found: dict[str, list[Trace]] = {}
    for trace in evaluate(DEFINITION, entries, WORKLOADS, baseline=baseline, options=options):
        found.setdefault(trace.solution or "", []).append(trace)
    return found


def evaluation(trace: Trace) -> Evaluation:
    assert trace.evaluation is not None
    return trace.evaluation


@pytest.mark.parametrize("name", SOURCES)
def test_every_kind_of_solution_gets_its_verdict_on_every_workload(name: str, traces: dict[str, list[Trace]]) -> None:
    _, _, verdict, reason = SOURCES[name]
    assert sorted(trace.workload.uuid for trace in traces[name]) == ["rows-33", "rows-4"]
    for trace in traces[name]:
        assert (evaluation(trace).effective_verdict, reason in (evaluation(trace).reason or "")) == (verdict, True), (
            evaluation(trace).reason
        )


def test_a_trace_says_what_was_judged_where_and_how(traces: dict[str, list[Trace]]) -> None:
    trace = traces["value_returning"][0]
    found = evaluation(trace)
    subject, times, evidence = found.subject, found.statistics, found.evidence
    assert subject is not None
    assert times is not None
    assert evidence is not None
    assert subject.definition_hash == DEFINITION.hash()
    assert subject.workload_hash == trace.workload.hash()
    assert subject.judge_version == JUDGE_VERSION
    assert found.environment.sandbox == "bwrap"
    assert found.environment.libs["torch"]
    assert (times.baseline, times.sessions, times.n) == ("torch_rms_norm", 1, 6)
    assert times.ratio is not None
    assert times.ratio_ci95 is not None
    assert times.ratio_ci95[0] <= times.ratio <= times.ratio_ci95[1]
    assert evidence.clock is not None
    assert evidence.clock.startswith("judge")
    assert (evidence.verified_calls or 0) >= 6
    assert found.performance is not None
    assert found.performance.speedup_factor == pytest.approx(
        found.performance.reference_latency_ms / found.performance.latency_ms
    )


def test_the_same_content_as_the_baseline_is_the_baseline(traces: dict[str, list[Trace]]) -> None:
    times = evaluation(traces["honest"][0]).statistics
    assert times is not None
    assert (times.ratio, times.ratio_ci95) == (1.0, (1.0, 1.0))


def test_a_failure_carries_no_times_and_survives_a_round_trip(traces: dict[str, list[Trace]]) -> None:
    for trace in traces["zeros"] + traces["raises"] + traces["syntax"]:
        assert evaluation(trace).statistics is None
        assert Trace.model_validate_json(trace.model_dump_json(exclude_unset=True)) == trace


def judged(
    definition: Definition, entry: Solution, workload: Workload, options: JudgeOptions, **over: Any
) -> Evaluation:
    [trace] = evaluate(definition, entry, [workload], options=options, **over)
    return evaluation(trace)


INPLACE = Definition.model_validate(
    {
        "name": "add_and_scale",
        "op_type": "test",
        "axes": {"n": {"type": "var"}},
        "inputs": {
            "x": {"shape": ["n"], "dtype": "float32"},
            "state": {"shape": ["n"], "dtype": "float32"},
            "factor": {"shape": None, "dtype": "float32"},
            "mask": {"shape": ["n"], "dtype": "bool", "optional": True},
        },
        "outputs": {
            "doubled": {"shape": ["n"], "dtype": "float32"},
            "new_state": {"shape": ["n"], "dtype": "float32", "inout": "state"},
        },
        "reference": "def run(x, state, factor, mask):\n    return 2 * x, state + factor * x\n",
    }
)
INPLACE_WORKLOAD = Workload.model_validate(
    {
        "uuid": "w",
        "axes": {"n": 1000},
        "inputs": {"x": {"type": "random"}, "state": {"type": "random"}, "factor": {"type": "scalar", "value": 0.5}},
    }
)


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ("doubled.copy_(2 * x); state.add_(x, alpha=factor); assert mask is None", Verdict.PASSED),
        ("doubled.copy_(2 * x)", Verdict.INCORRECT_NUMERICAL),
        ("doubled.copy_(2 * x); state.add_(x)", Verdict.INCORRECT_NUMERICAL),
    ],
    ids=["updates", "forgets the state", "ignores the scalar"],
)
def test_in_place_outputs_scalars_and_optional_inputs(code: str, verdict: Verdict, options: JudgeOptions) -> None:
    source = f"def run(x, state, factor, mask, doubled):\n    {code}\n"
    entry = solution("inplace", source, definition="add_and_scale")
    assert judged(INPLACE, entry, INPLACE_WORKLOAD, options).effective_verdict is verdict


def test_without_a_baseline_the_reference_is_what_one_is_compared_with(options: JudgeOptions) -> None:
    times = judged(DEFINITION, solution("honest", HONEST), WORKLOADS[0], options).statistics
    assert times is not None
    assert times.baseline == "rmsnorm_h8__reference"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (
            "def run(hidden_states, weight):\n    raise RuntimeError('broken')\n",
            "reference of rmsnorm_h8 fails.*broken",
        ),
        (
            "import nothing_like_this\ndef run(hidden_states, weight):\n    pass\n",
            "reference of rmsnorm_h8 does not load",
        ),
        ("import os\ndef run(hidden_states, weight):\n    os._exit(3)\n", "reference of rmsnorm_h8 was lost"),
        ("def run(hidden_states, weight):\n    return hidden_states * float('nan')\n", "gives NaN"),
    ],
)
def test_a_broken_reference_is_never_the_authors_fault(reference: str, message: str, options: JudgeOptions) -> None:
    definition = Definition.model_validate(raw_definition(reference=reference))
    with pytest.raises(DatasetError, match=f"(?s){message}"):
        list(evaluate(definition, solution("honest", HONEST), WORKLOADS, options=options))


def test_a_broken_baseline_is_never_the_authors_fault(options: JudgeOptions) -> None:
    baseline = solution("wrong", body("output.zero_()"), author="baseline")
    with pytest.raises(DatasetError, match="the baseline of rmsnorm_h8 fails on workload rows-4"):
        list(evaluate(DEFINITION, solution("honest", HONEST + "\n"), WORKLOADS, baseline=baseline, options=options))


TRITON = """\
import torch
import triton
import triton.language as tl

@triton.jit
def norm(x, w, y, COLUMNS: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, COLUMNS)
    value = tl.load(x + row * COLUMNS + column)
    scale = tl.rsqrt(tl.sum(value * value) / COLUMNS + 1e-5)
    tl.store(y + row * COLUMNS + column, value * scale * tl.load(w + column))

def run(hidden_states, weight, output):
    norm[(hidden_states.shape[0],)](hidden_states, weight, output, COLUMNS=8)
"""


def test_triton_is_judged_by_its_interpreter_and_never_timed(options: JudgeOptions) -> None:
    pytest.importorskip("triton")
    entry = Solution.model_validate(raw_solution(name="triton", source=TRITON, spec={"language": "triton"}))
    found = judged(DEFINITION, entry, WORKLOADS[0], options)
    assert found.effective_verdict is Verdict.PASSED, found.reason
    assert found.statistics is None
    assert found.performance is not None
    assert found.performance.model_dump(exclude_unset=True) == {}
    assert found.evidence is not None
    assert found.evidence.clock == "none (triton interpreter)"


def test_workloads_may_come_from_any_iterable(options: JudgeOptions) -> None:
    entries: Sequence[Solution] = [solution("honest", HONEST)]
    assert len(list(evaluate(DEFINITION, entries, iter(WORKLOADS), options=options))) == 2
