from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from kernelmill.dataset.checks.context import Context
from kernelmill.dataset.checks.finding import Finding, Place
from kernelmill.dataset.commands import register
from kernelmill.dataset.validate import CHECKS
from tests.dataset.folder import add_workloads, small, workload_line, write_lines


def validate(*arguments: object) -> Result:
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    return CliRunner().invoke(app, ["validate", *map(str, arguments)])


def test_a_dataset_without_errors_exits_0_and_prints_its_notes(root: Path) -> None:
    ran = validate(small(root))
    assert ran.exit_code == 0
    assert "rmsnorm_baseline was judged on 1 of 2 workloads" in ran.stdout
    assert "error" not in ran.stdout
    assert f"dataset: {root}" in ran.stderr and "checking layout" in ran.stderr
    assert "1 definitions, 2 solutions, 2 workloads, 2 traces: 0 errors, 0 warnings, 2 notes" in ran.stderr


def test_errors_exit_1_and_every_line_says_where_and_what_to_do(root: Path) -> None:
    small(root)
    write_lines(
        root / "workloads/rmsnorm/rmsnorm_h8.jsonl", [workload_line(axes={"batch_size": -1}), {"definition": 1}]
    )
    ran = validate(root, "--checks", "workload")
    assert ran.exit_code == 1
    first, second = ran.stdout.splitlines()
    assert first.startswith("error   workload: workloads/rmsnorm/rmsnorm_h8.jsonl:1: $.workload.axes.batch_size: ")
    assert second.startswith("error   workload: workloads/rmsnorm/rmsnorm_h8.jsonl:2: $.definition: ")
    assert "; correct" in second


def test_json_is_one_object_a_line_on_stdout_alone(root: Path) -> None:
    small(root)
    add_workloads(root, {"inputs": {}})
    ran = validate(root, "--json")
    assert ran.exit_code == 1
    records = [json.loads(line) for line in ran.stdout.splitlines()]
    missing = [record for record in records if record["severity"] == "error"]
    assert missing[0] == {
        "check": "workload",
        "severity": "error",
        "file": "workloads/rmsnorm/rmsnorm_h8.jsonl",
        "line": 1,
        "path": "$.workload.inputs.hidden_states",
        "message": "the input is missing",
        "advice": "say where it comes from",
    }


def test_checks_are_chosen_by_name(root: Path) -> None:
    small(root)
    assert validate(root, "--checks", "layout, trace").stdout == ""
    wrong = validate(root, "--checks", "layout,spelling")
    assert wrong.exit_code == 2
    for name in ("spelling", *CHECKS):
        assert name in wrong.stderr


def test_strict_makes_degenerate_workloads_errors(root: Path) -> None:
    small(root)
    add_workloads(root, {"uuid": "w4"})
    assert validate(root).exit_code == 0
    assert validate(root, "--strict").exit_code == 1


def test_a_dataset_that_is_not_there_exits_2(root: Path) -> None:
    ran = validate(root / "nowhere")
    assert ran.exit_code == 2 and "nowhere" in ran.stderr and ran.stdout == ""


def test_the_environment_names_the_dataset_and_stderr_says_which(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIB_DATASET_PATH", str(small(root)))
    assert f"dataset: {root}" in validate().stderr


def test_mutants_run_as_one_more_check(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(context: Context) -> Iterator[Finding]:
        for place, definition in context.definitions:
            yield Place(place.file).error("$", f"a mutant passes {definition.name}")

    module = types.ModuleType("kernelmill.evaluator.mutants")
    module.check = check  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kernelmill.evaluator.mutants", module)
    ran = validate(small(root), "--mutants", "--checks", "mutants")
    assert ran.exit_code == 1 and "a mutant passes rmsnorm_h8" in ran.stdout
