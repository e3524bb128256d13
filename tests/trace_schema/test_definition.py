"""Definitions: what the public schema refuses, and what ours adds."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from kernelmill.trace_schema import AxisConst, AxisVar, DatasetError, Definition, DType
from tests import builders

F32 = {"shape": ["batch_size"], "dtype": "float32"}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"name": ""}, "name"),
        ({"op_type": ""}, "op_type"),
        ({"tags": [""]}, "tags.0"),
        ({"tags": None}, "tags"),
        ({"constraints": [""]}, "constraints.0"),
        ({"constraints": None}, "constraints"),
        ({"constraints": ["n =="]}, "constraint 'n ==' is not a Python expression at line 1"),
        ({"reference": "def run(:"}, "reference is not Python source at line 1, column 9"),
        ({"reference": "def f(): pass"}, "no top-level function `def run"),
        ({"reference": "class A:\n  def run(self): pass"}, "no top-level function"),
        ({"reference": "async def run(): pass"}, "`async def` doesn't count"),
        ({"reference": "def run(): pass\x00"}, "reference is not Python source"),
        ({"reference": "x = " + "(" * 500 + ")" * 500}, "reference is not Python source"),
        ({"reference": "x = " + "-" * 100_000 + "1"}, "reference is not Python source"),
        ({"inputs": {"x": {"shape": ["m"], "dtype": "float32"}}}, "input 'x' names the axis 'm', which is not defined"),
        ({"outputs": {"y": {"shape": ["m"], "dtype": "float32"}}}, "output 'y' names the axis 'm'"),
        ({"outputs": {"weight": F32}}, "'weight' is both an input and an output"),
        ({"inputs": {"x": {"dtype": "float32"}}}, "shape"),
        ({"inputs": {"x": {**F32, "dtype": "uint8"}}}, "dtype"),
        ({"inputs": {"x": {"shape": [4], "dtype": "float32"}}}, "shape.0"),
        ({"inputs": {"x": {**F32, "role": "weight"}}}, "role"),
        ({"axes": {"n": {"type": "expr", "expr": "2 * m"}}}, "an axis is"),
        ({"axes": {"n": {"type": "const", "value": -1}}}, "greater than or equal to 0"),
        ({"axes": {"n": {"type": "const"}}}, "value"),
        ({"axes": {"n": 4}}, "an axis is"),
        ({"cost": {"bytes": "open('x')"}}, "cost: expression"),
    ],
)
def test_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError) as error:
        builders.definition(**change)
    assert complaint in str(error.value)


def test_accepted_although_odd() -> None:
    assert builders.definition(inputs={}, outputs={}).inputs == {}
    assert builders.definition(constraints=["kv_indptr[-1].item() == [x for x in y]"]).constraints
    assert builders.definition(reference="def run(): return '\\d'").name


def test_an_axis_without_type_is_told_by_its_fields() -> None:
    axes = builders.definition(axes={"batch_size": {}, "hidden_size": {"value": 8}}).axes
    assert isinstance(axes["batch_size"], AxisVar)
    assert isinstance(axes["hidden_size"], AxisConst)
    built = Definition(
        name="d", op_type="o", axes={"n": AxisConst(value=3)}, inputs={}, outputs={}, reference="def run(): pass"
    )
    assert built.const_axes == {"n": 3}


def test_axes_and_shapes() -> None:
    definition = builders.definition(
        inputs={
            "x": {"shape": ["batch_size", "hidden_size"], "dtype": "float32"},
            "eps": {"shape": None, "dtype": "float32"},
            "zero_d": {"shape": [], "dtype": "float32"},
        }
    )
    assert definition.const_axes == {"hidden_size": 8}
    assert definition.var_axes == ["batch_size"]
    assert definition.resolve_axes({"batch_size": 4}) == {"batch_size": 4, "hidden_size": 8}
    assert definition.resolve_axes({"batch_size": 4, "hidden_size": 8}) == {"batch_size": 4, "hidden_size": 8}
    assert definition.shape("x", {"batch_size": 4}) == (4, 8)
    assert definition.shape("output", {"batch_size": 4}) == (4, 8)
    assert definition.shape("eps", {}) is None
    assert definition.shape("zero_d", {}) == ()


@pytest.mark.parametrize(
    ("axes", "complaint"),
    [
        ({}, "needs a size for its variable axis 'batch_size'"),
        ({"batch_size": 4, "m": 1}, "has no axis 'm'; its axes are: batch_size, hidden_size"),
        ({"batch_size": 4, "hidden_size": 9}, "axis 'hidden_size' of rmsnorm_h8 is always 8, not 9"),
    ],
)
def test_axes_that_do_not_fit(axes: dict[str, int], complaint: str) -> None:
    with pytest.raises(DatasetError, match=complaint):
        builders.definition().resolve_axes(axes)


def test_a_shape_of_nothing() -> None:
    with pytest.raises(DatasetError, match="no input or output 'q'"):
        builders.definition().shape("q", {})
    with pytest.raises(DatasetError, match="needs a size"):
        builders.definition().shape("output", {})


@pytest.mark.parametrize(
    ("outputs", "complaint"),
    [
        ({"y": {**F32, "inout": "nothing"}}, "only an output may be"),
        ({"y": {**F32, "inout": "weight"}}, "shape and dtype must be those of input 'weight'"),
        ({"y": {"shape": ["hidden_size"], "dtype": "float16", "inout": "weight"}}, "shape and dtype"),
    ],
)
def test_in_place_outputs_must_fit_their_input(outputs: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        builders.definition(outputs=outputs)


def test_in_place_outputs() -> None:
    updated = {"shape": ["hidden_size"], "dtype": "float32", "inout": "weight"}
    assert builders.definition(outputs={"y": updated}).outputs["y"].inout == "weight"
    with pytest.raises(ValidationError, match="only an output may be"):
        builders.definition(inputs={"weight": F32, "x": {**F32, "inout": "weight"}}, outputs={})


def test_every_dtype_has_a_size() -> None:
    assert {dtype: dtype.bytes for dtype in DType} == {
        "float32": 4,
        "float16": 2,
        "bfloat16": 2,
        "float8_e4m3fn": 1,
        "float8_e5m2": 1,
        "float4_e2m1": 0.5,
        "int64": 8,
        "int32": 4,
        "int16": 2,
        "int8": 1,
        "bool": 1,
    }
    assert [dtype for dtype in DType if not dtype.is_float] == ["int64", "int32", "int16", "int8", "bool"]
