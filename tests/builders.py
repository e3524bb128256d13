"""Full, valid records for tests: each takes overrides and fills in the rest.

`definition(name="x")` replaces a field; `raw_definition(name="x")` gives the same as plain JSON.
"""

from __future__ import annotations

import json
from typing import Any

from kernelmill.trace_schema import Definition, Solution, Trace, Workload

REFERENCE = """\
import torch


def run(hidden_states, weight):
    x = hidden_states.to(torch.float32)
    scale = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-5)
    return (x * scale * weight.to(torch.float32)).to(hidden_states.dtype)
"""

SOURCE = """\
import torch


def run(hidden_states, weight, output):
    output.copy_(torch.nn.functional.rms_norm(hidden_states, weight.shape, weight, 1e-5))
"""


def raw_definition(**over: Any) -> dict[str, Any]:
    """A small RMSNorm: 8 columns, rows variable."""
    return {
        "name": "rmsnorm_h8",
        "op_type": "rmsnorm",
        "axes": {"batch_size": {"type": "var"}, "hidden_size": {"type": "const", "value": 8}},
        "inputs": {
            "hidden_states": {"shape": ["batch_size", "hidden_size"], "dtype": "float32"},
            "weight": {"shape": ["hidden_size"], "dtype": "float32"},
        },
        "outputs": {"output": {"shape": ["batch_size", "hidden_size"], "dtype": "float32"}},
        "reference": REFERENCE,
        **over,
    }


def raw_workload(**over: Any) -> dict[str, Any]:
    """Four rows, both inputs random."""
    return {
        "uuid": "11111111-1111-4111-8111-111111111111",
        "axes": {"batch_size": 4},
        "inputs": {"hidden_states": {"type": "random"}, "weight": {"type": "random"}},
        **over,
    }


def raw_solution(**over: Any) -> dict[str, Any]:
    """A destination-passing Python solution; `source=` sets its only file, `spec={...}` changes fields of the spec."""
    source = over.pop("source", SOURCE)
    spec = {
        "language": "python",
        "target_hardware": ["cpu"],
        "entry_point": "main.py::run",
        "destination_passing_style": True,
        **over.pop("spec", {}),
    }
    return {
        "name": "rmsnorm_torch",
        "definition": "rmsnorm_h8",
        "author": "alice",
        "spec": spec,
        "sources": [{"path": "main.py", "content": source}],
        **over,
    }


def raw_evaluation(**over: Any) -> dict[str, Any]:
    """A pass, 2x faster than the baseline; another `status` drops what that status forbids."""
    evaluation = {
        "status": "PASSED",
        "environment": {
            "hardware": "Test CPU",
            "libs": {"torch": "2.8.0"},
            "device": {"name": "Test CPU", "arch": "x86_64", "count": 1},
        },
        "timestamp": "2026-01-01T00:00:00+00:00",
        "log": "",
        "correctness": {"max_relative_error": 1e-6, "max_absolute_error": 1e-7},
        "performance": {"latency_ms": 1.0, "reference_latency_ms": 4.0, "speedup_factor": 4.0},
        "statistics": {
            "n": 50,
            "sessions": 3,
            "median_ms": 1.0,
            "p10_ms": 0.9,
            "p90_ms": 1.1,
            "baseline": "rmsnorm_baseline",
            "baseline_median_ms": 2.0,
            "ratio": 2.0,
            "ratio_ci95": [1.9, 2.1],
        },
        **over,
    }
    if evaluation["status"] != "PASSED":
        for field in ("performance", "statistics"):
            if field not in over:
                del evaluation[field]
        if evaluation["status"] != "INCORRECT_NUMERICAL" and "correctness" not in over:
            del evaluation["correctness"]
    return evaluation


def raw_trace(**over: Any) -> dict[str, Any]:
    """A pass. `workload=` and `evaluation=` take overrides or records; `evaluation=None` gives a workload trace."""
    workload = over.pop("workload", {})
    evaluation = over.pop("evaluation", {})
    judged = evaluation is not None
    return {
        "definition": "rmsnorm_h8",
        "solution": "rmsnorm_torch" if judged else None,
        "workload": plain(workload) if isinstance(workload, Workload) else raw_workload(**workload),
        "evaluation": (raw_evaluation(**evaluation) if isinstance(evaluation, dict) else plain(evaluation))
        if judged
        else None,
        **over,
    }


def definition(**over: Any) -> Definition:
    """See `raw_definition`."""
    return Definition.model_validate(raw_definition(**over))


def workload(**over: Any) -> Workload:
    """See `raw_workload`."""
    return Workload.model_validate(raw_workload(**over))


def solution(**over: Any) -> Solution:
    """See `raw_solution`."""
    return Solution.model_validate(raw_solution(**over))


def trace(**over: Any) -> Trace:
    """See `raw_trace`."""
    return Trace.model_validate(raw_trace(**over))


def plain(record: Any) -> Any:
    """A record as the JSON that would be written."""
    return json.loads(record.model_dump_json(exclude_unset=True))
