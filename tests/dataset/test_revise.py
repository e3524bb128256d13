"""Workloads replaced in place: what is not changed keeps its bytes, and nobody's line is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kernelmill.dataset import Dataset, DatasetError
from kernelmill.trace_schema import Workload
from tests import builders
from tests.dataset.folder import small, start_python

WORKLOADS = Path("workloads/rmsnorm/rmsnorm_h8.jsonl")
APPEND = """
import sys
from kernelmill.dataset import Dataset
from tests import builders
dataset = Dataset.open(sys.argv[1])
for number in range(60):
    dataset.append(builders.trace(workload={"uuid": f"appended-{number}"}, evaluation=None))
"""
REVISE = """
import sys
from kernelmill.dataset import Dataset
dataset = Dataset.open(sys.argv[1])
for _ in range(40):
    dataset.revise_workloads("rmsnorm_h8", lambda before: [
        each.model_copy(update={"weight": (each.weight or 0) + 1}) if each.uuid == "w4" else each for each in before
    ])
"""


def heavier(by: float) -> Callable[[Workload], Workload]:
    return lambda workload: workload.model_copy(update={"weight": by})


def test_unchanged_workloads_and_unreadable_lines_keep_their_bytes(root: Path) -> None:
    file = small(root) / WORKLOADS
    file.write_text('{"definition": "rmsnorm_h8",\t"workload": 3}\n' + file.read_text().replace(", ", " ,  "))
    broken, first, second = file.read_bytes().splitlines(keepends=True)
    dataset = Dataset.open(root)
    added = builders.workload(uuid="new")
    dataset.revise_workloads("rmsnorm_h8", lambda before: [heavier(3.0)(before[0]), before[1], added])
    lines = file.read_bytes().splitlines(keepends=True)
    assert lines[0] == broken
    assert lines[1] != first
    assert lines[2] == second
    found = {workload.uuid: workload.weight for workload in dataset.workloads("rmsnorm_h8")}
    assert found == {"w4": 3.0, "w9": None, "new": None}
    assert b'"solution":null' in lines[1], "what else the line said stays"


def test_a_revision_that_fails_leaves_the_file_as_it_was(root: Path) -> None:
    file = small(root) / WORKLOADS
    before = file.read_bytes()

    def fail(_: list[Workload]) -> list[Workload]:
        raise DatasetError("on purpose")

    with pytest.raises(DatasetError, match="on purpose"):
        Dataset.open(root).revise_workloads("rmsnorm_h8", fail)
    assert file.read_bytes() == before


def test_revising_and_appending_at_the_same_time_loses_nothing(root: Path) -> None:
    small(root)
    processes = [start_python(program, root) for program in (REVISE, APPEND, REVISE)]
    for process in processes:
        process.communicate(timeout=120)
        assert process.returncode == 0
    found = {workload.uuid: workload.weight for workload in Dataset.open(root).workloads("rmsnorm_h8")}
    assert found["w4"] == 80.0
    assert found.keys() == {"w4", "w9", *(f"appended-{number}" for number in range(60))}
