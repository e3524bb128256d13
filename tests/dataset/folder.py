"""Writes datasets as anybody could: plain JSON in the public layout, without the code under test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.builders import raw_definition, raw_solution, raw_trace, raw_workload

PROJECT = Path(__file__).parents[2]


def write_json(path: Path, record: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record))
    return path


def write_lines(path: Path, records: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def add_definition(root: Path, **over: Any) -> Path:
    raw = raw_definition(**over)
    return write_json(root / f"definitions/{raw['op_type']}/{raw['name']}.json", raw)


def add_solution(root: Path, op_type: str = "rmsnorm", **over: Any) -> Path:
    raw = raw_solution(**over)
    return write_json(
        root / f"solutions/{raw['author']}/{op_type}/{raw['definition']}/{raw['name']}.json",
        raw,
    )


def add_workloads(
    root: Path, *workloads: dict[str, Any], definition: str = "rmsnorm_h8", op_type: str = "rmsnorm"
) -> Path:
    lines = [workload_line(definition, **workload) for workload in workloads]
    return write_lines(root / f"workloads/{op_type}/{definition}.jsonl", lines)


def workload_line(definition: str = "rmsnorm_h8", **over: Any) -> dict[str, Any]:
    return {"definition": definition, "solution": None, "workload": raw_workload(**over), "evaluation": None}


def add_traces(root: Path, *traces: dict[str, Any], author: str = "alice", op_type: str = "rmsnorm") -> Path:
    lines = [raw_trace(**trace) for trace in traces]
    return write_lines(root / f"traces/{author}/{op_type}/{lines[0]['definition']}.jsonl", lines)


def small(root: Path) -> Path:
    """One definition, two workloads, a baseline and alice's solution, with a trace of each on the first workload."""
    add_definition(root)
    add_workloads(root, {"uuid": "w4"}, {"uuid": "w9", "axes": {"batch_size": 9}})
    add_solution(root, name="rmsnorm_baseline", author="baseline")
    add_solution(root)
    add_traces(root, {"solution": "rmsnorm_baseline", "workload": {"uuid": "w4"}}, author="baseline")
    add_traces(root, {"workload": {"uuid": "w4"}})
    return root


def run_python(program: str, *arguments: object, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """A real process, with this project importable."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=timeout_s, check=False)


def start_python(program: str, *arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(PROJECT)}
