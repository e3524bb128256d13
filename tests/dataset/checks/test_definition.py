from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.dataset.checks.attention import found, lines, only, write
from tests.dataset.folder import add_definition, write_json


def test_a_broken_definition_is_an_error_with_its_place(root: Path) -> None:
    write_json(root / "definitions/a/b.json", {"name": "b", "op_type": "a"})
    findings = found(root, "definition")
    assert {finding.severity for finding in findings} == {"error"}
    assert {finding.path for finding in findings} >= {"$.axes", "$.reference"}


def test_a_missing_description_is_only_noted(root: Path) -> None:
    add_definition(root)
    assert only(root, "definition").severity == "info"


@pytest.mark.parametrize(
    "signature",
    [
        "x, weight",
        "hidden_states, weight, eps=1e-6",
        "*inputs",
        "hidden_states, *rest",
        "x, /, weight",
        "x, y, *, eps=1",
    ],
)
def test_a_reference_that_takes_the_inputs_passes(root: Path, signature: str) -> None:
    add_definition(root, description="x", reference=f"def run({signature}):\n    return 0\n")
    assert found(root, "definition") == []


@pytest.mark.parametrize("signature", ["x", "x, y, z", "", "x, y, *, eps", "**inputs"])
def test_a_reference_that_does_not_take_the_inputs_is_an_error(root: Path, signature: str) -> None:
    add_definition(root, description="x", reference=f"def run({signature}):\n    return 0\n")
    finding = only(root, "definition")
    assert finding.severity == "error" and f"run({signature})" in finding.message


@pytest.mark.parametrize("constraint", ["open('x')", "missing_axis > 2", "q.device == 3"])
def test_a_constraint_that_cannot_be_evaluated_is_a_warning(root: Path, constraint: str) -> None:
    write(root, constraints=[constraint])
    finding = only(root, "definition")
    assert (finding.severity, finding.path) == ("warning", "$.constraints[0]")


def test_a_cost_over_what_is_no_axis_is_an_error(root: Path) -> None:
    write(root, cost={"flops": "2 * batch_size * depth", "bytes": "page_size"})
    finding = only(root, "definition")
    assert finding.severity == "error" and "depth" in finding.message and finding.path == "$.cost.flops"


def test_an_axis_that_no_input_has_is_a_warning(root: Path) -> None:
    axes = {"batch_size": {"type": "var"}, "hidden_size": {"type": "const", "value": 8}, "steps": {"type": "var"}}
    add_definition(root, description="x", axes=axes)
    finding = only(root, "definition")
    assert (finding.severity, finding.path) == ("warning", "$.axes.steps")


@pytest.mark.parametrize(
    ("over", "path", "near"),
    [
        ({"constraint": ["x > 1"]}, "$.constraint", "constraints"),
        ({"Tags": ["a"]}, "$.Tags", "tags"),
        ({"comparator": {"kind": "elementwise", "parms": {}}}, "$.comparator.parms", "params"),
    ],
)
def test_a_field_that_looks_misspelled_is_a_warning(root: Path, over: dict[str, Any], path: str, near: str) -> None:
    write(root, **over)
    finding = only(root, "definition")
    assert (finding.severity, finding.path) == ("warning", path)
    assert near in finding.advice


def test_fields_that_resemble_nothing_are_left_alone(root: Path) -> None:
    write(root, source_commit="0123", origin={"engine": "x"})
    assert lines(root, "definition") == []
