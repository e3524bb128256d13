"""The round trip law: what is read is written back, unknown fields, huge integers and NaN texts included."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from kernelmill.trace_schema import Definition, Model, Solution, Trace, Workload
from tests import builders
from tests.trace_schema import strategies


def same(left: Any, right: Any) -> bool:
    """Equal as JSON: 1 is 1.0 and neither is true; the order of keys doesn't matter."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def assert_round_trip(model: type[Model], raw: dict[str, Any]) -> None:
    record = model.model_validate(raw)
    assert same(json.loads(record.model_dump_json(exclude_unset=True)), raw)
    assert same(record.model_dump(mode="json", exclude_unset=True), raw)
    assert model.model_validate_json(json.dumps(raw)).model_dump_json() == record.model_dump_json()


@given(strategies.definitions())
def test_definition(raw: dict[str, Any]) -> None:
    assert_round_trip(Definition, raw)


@given(strategies.workloads())
def test_workload(raw: dict[str, Any]) -> None:
    assert_round_trip(Workload, raw)


@given(strategies.solutions())
def test_solution(raw: dict[str, Any]) -> None:
    assert_round_trip(Solution, raw)


@settings(max_examples=60)
@given(strategies.traces())
def test_trace(raw: dict[str, Any]) -> None:
    assert_round_trip(Trace, raw)


@pytest.mark.parametrize(
    ("model", "raw"),
    [
        (Definition, builders.raw_definition()),
        (Workload, builders.raw_workload()),
        (Solution, builders.raw_solution()),
        (Trace, builders.raw_trace()),
        (Trace, builders.raw_trace(evaluation=None)),
        (Trace, builders.raw_trace(evaluation={"status": "TIMEOUT"})),
    ],
)
def test_builders(model: type[Model], raw: dict[str, Any]) -> None:
    assert_round_trip(model, raw)


def test_fields_that_were_not_set_are_not_written() -> None:
    written = builders.plain(builders.trace(evaluation=None))
    assert set(written["workload"]) == {"uuid", "axes", "inputs"}


def test_a_public_dataset() -> None:
    root = os.environ.get("KERNELMILL_SAMPLE_DATASET")
    if not root:
        pytest.skip("KERNELMILL_SAMPLE_DATASET does not name a dataset of public files")
    files = sorted(Path(root).rglob("*.json*"))
    assert files, f"{root} holds no .json or .jsonl file"
    for path in files:
        texts = (
            path.read_text(encoding="utf-8").splitlines()
            if path.suffix == ".jsonl"
            else [path.read_text(encoding="utf-8")]
        )
        model = Trace if path.suffix == ".jsonl" else Definition if "definitions" in path.parts else Solution
        for each in filter(str.strip, texts):
            assert_round_trip(model, json.loads(each))
