"""Workloads: where inputs come from."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from kernelmill.trace_schema import Distribution, RandomInput, SafetensorsInput, ScalarInput, Workload
from tests import builders


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        ({}, RandomInput),
        ({"seed": 3}, RandomInput),
        ({"distribution": {"kind": "normal"}}, RandomInput),
        ({"path": "a", "tensor_key": "b"}, SafetensorsInput),
        ({"path": "a", "tensor_key": "b", "value": 1}, SafetensorsInput),
        ({"value": 1}, ScalarInput),
        ({"type": "random", "value": 1}, RandomInput),
    ],
)
def test_an_input_without_type_is_told_by_its_fields(raw: dict[str, Any], kind: type) -> None:
    workload = builders.workload(inputs={"x": raw})
    assert type(workload.inputs["x"]) is kind
    assert builders.plain(workload)["inputs"]["x"] == raw


@pytest.mark.parametrize(
    "raw",
    [{"type": "gaussian"}, {"type": None}, {"path": "a"}, {"path": "", "tensor_key": "b"}, {"value": "a"}, 1, None],
)
def test_what_is_no_input(raw: Any) -> None:
    with pytest.raises(ValidationError):
        builders.workload(inputs={"x": raw})


@pytest.mark.parametrize("value", [True, 1, 1.0, 2**53 + 1, 0, False])
def test_a_scalar_keeps_its_type(value: Any) -> None:
    scalar = builders.workload(inputs={"x": {"value": value}}).inputs["x"]
    assert isinstance(scalar, ScalarInput)
    assert scalar.value == value
    assert type(scalar.value) is type(value)
    assert type(builders.plain(scalar)["value"]) is type(value)


def test_records_can_be_built_in_python() -> None:
    workload = Workload(uuid="u", axes={"n": 1}, inputs={"x": RandomInput(), "y": ScalarInput(value=1)})
    assert builders.plain(workload) == {"uuid": "u", "axes": {"n": 1}, "inputs": {"x": {}, "y": {"value": 1}}}


@pytest.mark.parametrize(
    ("raw", "params"),
    [
        ({"kind": "normal"}, {"mean": 0, "std": 1}),
        ({"kind": "normal", "std": 0.5}, {"mean": 0, "std": 0.5}),
        ({"kind": "normal", "column_std": 2}, {"mean": 0, "std": 1, "column_std": 2}),
        ({"kind": "lognormal", "mean": None}, {"mean": 0, "std": 1}),
        ({"kind": "uniform"}, {"low": 0, "high": 1}),
        ({"kind": "randint", "low": 0, "high": 2**53 + 1}, {"low": 0, "high": 2**53 + 1}),
        ({"kind": "softmax"}, {"temperature": 1}),
        ({"kind": "constant", "value": "-Infinity"}, {"value": float("-inf")}),
    ],
)
def test_distributions_and_their_defaults(raw: dict[str, Any], params: dict[str, float]) -> None:
    assert Distribution.model_validate(raw).params == params


def test_randint_gives_integers() -> None:
    params = Distribution.model_validate({"kind": "randint", "low": 0, "high": 4.0}).params
    assert all(type(value) is int for value in params.values())


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        ({"kind": "cauchy"}, "kind"),
        ({"kind": "constant"}, "constant needs value"),
        ({"kind": "randint", "low": 1}, "randint needs high"),
        ({"kind": "randint", "low": 0, "high": 1.5}, "must be whole numbers"),
        ({"kind": "randint", "low": 3, "high": 3}, "low 3.0 must be less than high 3.0"),
        ({"kind": "uniform", "low": 1}, "must be less than"),
        ({"kind": "normal", "std": -1}, "must not be negative"),
        ({"kind": "normal", "mean": "NaN"}, "must be finite"),
        ({"kind": "normal", "low": 0}, "normal takes mean, std, column_std, not low"),
        ({"kind": "uniform", "column_std": 1}, "uniform takes low, high, not column_std"),
        ({"kind": "softmax", "temperature": 0}, "temperature must be more than 0"),
    ],
)
def test_distributions_that_make_no_sense(raw: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        Distribution.model_validate(raw)


@pytest.mark.parametrize(
    "change",
    [{"uuid": ""}, {"axes": None}, {"weight": -1}, {"weight": "Infinity"}, {"provenance": {}}, {"seed": 1.5}],
)
def test_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        builders.workload(**change)
