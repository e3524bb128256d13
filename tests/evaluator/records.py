"""Definitions, workloads, solutions and traces with full defaults, so that a test states only what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelmill.evaluator.scoring import Entry, Score, score
from kernelmill.trace_schema import Definition, Solution, Trace, Workload

CPU = "AMD EPYC 9654 96-Core Processor"


def a_definition(name: str = "rmsnorm_h64", **over: Any) -> Definition:
    raw: dict[str, Any] = {
        "name": name,
        "op_type": "rmsnorm",
        "axes": {"batch": {"type": "var"}, "hidden": {"type": "const", "value": 64}},
        "inputs": {"x": {"shape": ["batch", "hidden"], "dtype": "float32"}},
        "outputs": {"y": {"shape": ["batch", "hidden"], "dtype": "float32"}},
        "reference": "def run(x):\n    return x\n",
    }
    return Definition.model_validate({**raw, **over})


def a_workload(uuid: str = "w1", batch: int = 8, **over: Any) -> Workload:
    return Workload.model_validate(
        {"uuid": uuid, "axes": {"batch": batch}, "inputs": {"x": {"type": "random"}}, **over}
    )


def workloads(count: int, **over: Any) -> list[Workload]:
    return [a_workload(f"w{at}", batch=at, **over) for at in range(1, count + 1)]


def a_solution(
    name: str = "fast",
    source: str = "",
    author: str = "ada",
    definition: str = "rmsnorm_h64",
    language: str = "python",
) -> Solution:
    return Solution.model_validate(
        {
            "name": name,
            "definition": definition,
            "author": author,
            "spec": {"language": language, "target_hardware": ["cpu"], "entry_point": "main.py::run"},
            "sources": [{"path": "main.py", "content": f"# {source or name}\ndef run(x, y):\n    y.copy_(x)\n"}],
        }
    )


BASELINE = a_solution("torch", author="baseline")
FAST, SLOW, OTHER = a_solution("fast"), a_solution("slow", author="bob"), a_solution("other", author="cy")


def named(*solutions: Solution) -> dict[str, Solution]:
    return {solution.name: solution for solution in solutions}


def on_day(day: int) -> str:
    return f"2026-04-{day:02}T00:00:00+00:00"


def a_trace(  # noqa: PLR0913
    solution: Solution,
    workload: Workload,
    ratio: float | None = 2.0,
    *,
    ci: Sequence[float] | None = None,
    verdict: str = "PASSED",
    baseline_ms: float = 1.0,
    definition: Definition | None = None,
    baseline: Solution = BASELINE,
    **over: Any,
) -> Trace:
    """A judged trace; `over` may hold reason, timestamp, device, sandbox, and any field of `subject`."""
    definition = definition or a_definition(solution.definition)
    passed = verdict == "PASSED"
    statistics = {
        "n": 90,
        "sessions": over.pop("sessions", 3),
        "median_ms": baseline_ms / ratio if ratio else None,
        "baseline": baseline.name,
        "baseline_median_ms": baseline_ms,
        "ratio": ratio,
        "ratio_ci95": ci or (ratio and [ratio * 0.98, ratio * 1.02]),
    }
    device = over.pop("device", CPU)
    environment = {"hardware": device, "device": {"name": device}, "sandbox": over.pop("sandbox", "bwrap")}
    evaluation = {
        "status": _STATUS.get(verdict, verdict),
        "verdict": verdict,
        "reason": over.pop("reason", None),
        "environment": environment,
        "timestamp": over.pop("timestamp", "2026-04-01T12:00:00+00:00"),
        "correctness": {} if verdict in ("PASSED", "INCORRECT_NUMERICAL") else None,
        "performance": {} if passed else None,
        "statistics": statistics if passed and ratio else None,
        "evidence": {"clock": "judge (perf_counter)", "roofline_ms": over.pop("roofline_ms", baseline_ms / 10)},
        "subject": {
            "solution_hash": solution.hash(),
            "definition_hash": definition.hash(),
            "workload_hash": workload.hash(),
            "baseline_hash": baseline.hash(),
            "judge_version": "1.0",
            "session": None,
            **over,
        },
    }
    return Trace.model_validate(
        {
            "definition": definition.name,
            "workload": workload.model_dump(mode="json", exclude_unset=True),
            "solution": solution.name,
            "evaluation": {key: value for key, value in evaluation.items() if value is not None},
        }
    )


def a_public_trace(solution: Solution, workload: Workload, speedup: float = 90.0) -> Trace:
    """What another tool of the public schema writes: no subject, no verdict, no statistics."""
    return Trace.model_validate(
        {
            "definition": solution.definition,
            "workload": workload.model_dump(mode="json", exclude_unset=True),
            "solution": solution.name,
            "evaluation": {
                "status": "PASSED",
                "environment": {"hardware": CPU},
                "timestamp": "2026-04-01T12:00:00",
                "correctness": {},
                "performance": {"latency_ms": 1.0, "reference_latency_ms": speedup, "speedup_factor": speedup},
            },
        }
    )


def scored(loads: Sequence[Workload], traces: Sequence[Trace], **over: Any) -> Score:
    """The board of the default definition on the default device."""
    return score(a_definition(), loads, traces, **{"device_model": CPU, **over})


def entry(board: Score, name: str = "fast") -> Entry:
    return next(each for each in board.entries if each.solution == name)


_STATUS = {
    "CHEAT_DETECTED": "RUNTIME_ERROR",
    "SUSPECT": "RUNTIME_ERROR",
    "RULE_VIOLATION": "RUNTIME_ERROR",
    "RESOURCE_EXCEEDED": "RUNTIME_ERROR",
    "INVALID_SUBMISSION": "COMPILE_ERROR",
}
