"""The checks of what was submitted and judged: solution, trace, baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import builders
from tests.dataset.checks.attention import found, lines, only
from tests.dataset.folder import add_definition, add_solution, add_traces, add_workloads, small, write_json


@pytest.mark.parametrize("check", ["solution", "trace", "baseline"])
def test_a_good_dataset_passes(root: Path, check: str) -> None:
    small(root)
    add_traces(
        root,
        {"solution": "rmsnorm_baseline", "workload": {"uuid": "w4"}},
        {"solution": "rmsnorm_baseline", "workload": {"uuid": "w9", "axes": {"batch_size": 9}}},
        author="baseline",
    )
    assert found(root, check) == []


def test_a_solution_of_nothing_known_is_an_error(root: Path) -> None:
    add_solution(root, definition="unheard")
    assert "no definition 'unheard'" in only(root, "solution").message


def test_a_solution_that_is_not_python_is_an_error(root: Path) -> None:
    add_definition(root)
    add_solution(root, source="def run(:\n")
    assert only(root, "solution").severity == "error"
    add_solution(root, source="int main() {}", spec={"language": "cpp"})
    assert found(root, "solution") == []


@pytest.mark.parametrize(
    ("source", "finds"),
    [
        ("def run(): ...", False),
        ("run = lambda: 0", False),
        ("from kernel import run", False),
        ("from kernel import go as run", False),
        ("from kernel import *", False),
        ("if True:\n    def run(): ...", False),
        ("def go(): ...", True),
        ("import run.extra", True),
    ],
)
def test_an_entry_file_without_its_function_is_a_warning(root: Path, source: str, finds: bool) -> None:
    add_definition(root)
    add_solution(root, source=source)
    assert [finding.path for finding in found(root, "solution")] == (["$.spec.entry_point"] if finds else [])


def test_a_broken_solution_is_an_error(root: Path) -> None:
    write_json(root / "solutions/a.json", builders.raw_solution(spec={"language": "cobol"}))
    finding = only(root, "solution")
    assert (finding.severity, finding.path) == ("error", "$.spec.language")


@pytest.mark.parametrize(
    ("over", "path", "severity"),
    [
        ({"definition": "unheard"}, "$.definition", "error"),
        ({"solution": "unheard"}, "$.solution", "error"),
        ({"workload": {"uuid": "unheard"}}, "$.workload.uuid", "warning"),
        ({"evaluation": {"subject": {"solution_hash": "old"}}}, "$.evaluation.subject.solution_hash", "info"),
        ({"evaluation": {"subject": {"workload_hash": "old"}}}, "$.evaluation.subject.workload_hash", "info"),
        ({"evaluation": {"statistic": {}}}, "$.evaluation.statistic", "warning"),
        ({"evaluation": {"performance": None}}, "$.evaluation", "error"),
    ],
)
def test_a_trace_speaks_of_what_is_there(root: Path, over: dict[str, Any], path: str, severity: str) -> None:
    small(root)
    add_traces(root, {"workload": {"uuid": "w4"}}, {"workload": {"uuid": "w4"}, **over})
    findings = [finding for finding in found(root, "trace") if finding.path == path]
    assert [(finding.line, finding.severity) for finding in findings] == [(2, severity)]


def test_a_trace_whose_hashes_are_current_is_not_noted(root: Path) -> None:
    small(root)
    subject = {
        "solution_hash": builders.solution().hash(),
        "definition_hash": builders.definition().hash(),
        "workload_hash": builders.workload().hash(),
    }
    add_traces(root, {"workload": {"uuid": "w4"}, "evaluation": {"subject": subject}})
    assert found(root, "trace") == []


def test_a_trace_of_another_definitions_solution_is_an_error(root: Path) -> None:
    small(root)
    add_definition(root, name="other")
    add_workloads(root, {"uuid": "w4"}, definition="other")
    add_traces(root, {"definition": "other", "workload": {"uuid": "w4"}})
    assert "implements 'rmsnorm_h8', not 'other'" in only(root, "trace").message


def test_a_definition_without_baseline_is_a_warning_that_strict_leaves(root: Path) -> None:
    add_definition(root)
    (finding,) = found(root, "baseline", strict=True)
    assert finding.severity == "warning" and "baseline" in finding.message


def test_a_baseline_that_fails_is_a_warning_and_one_that_skips_workloads_a_note(root: Path) -> None:
    small(root)
    failed = {"solution": "rmsnorm_baseline", "workload": {"uuid": "w4"}, "evaluation": {"status": "TIMEOUT"}}
    add_traces(root, failed, author="baseline")
    assert lines(root, "baseline") == [
        ("warning", 1, "the baseline rmsnorm_baseline has verdict TIMEOUT"),
        ("info", None, "rmsnorm_baseline was judged on 1 of 2 workloads"),
    ]
