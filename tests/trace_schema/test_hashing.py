"""Hashes: equal for equal behaviour, different for everything else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelmill.trace_schema.hashing import digest, encode
from tests import builders

values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 2.5]) | st.text("s1:l0", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab:", max_size=2), inner, max_size=2),
    max_leaves=5,
)


def typed(value: Any) -> Any:
    """The value with its types spelled out, so that 1, 1.0 and True differ; the order of keys doesn't count."""
    if isinstance(value, dict):
        return ("dict", frozenset((key, typed(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ("list", tuple(map(typed, value)))
    return (type(value).__name__, value)


@given(values, values)
def test_encodings_are_equal_exactly_for_equal_content(left: Any, right: Any) -> None:
    assert (encode(left) == encode(right)) is (typed(left) == typed(right))


@given(st.lists(values, min_size=2, max_size=4))
def test_no_encoding_begins_with_another(items: list[Any]) -> None:
    first, *rest = map(encode, items)
    assert all(first == other or not other.startswith(first) for other in rest)


def test_record_types_do_not_share_hashes() -> None:
    assert digest("definition", {}) != digest("solution", {})


def test_what_has_no_encoding() -> None:
    with pytest.raises(TypeError, match="set has no hash encoding"):
        encode({1})


@pytest.mark.parametrize(
    "change",
    [
        {"definition": "other"},
        {"source": "def run(): pass"},
        {"spec": {"language": "triton"}},
        {"spec": {"entry_point": "main.py::go"}},
        {"spec": {"destination_passing_style": False}},
        {"spec": {"dependencies": ["cutlass"]}},
        {"spec": {"target_hardware": ["cuda"]}},
        {"spec": {"target_hardware": ["cp", "u"]}},
    ],
)
def test_what_changes_a_solution(change: dict[str, Any]) -> None:
    assert builders.solution(**change).hash() != builders.solution().hash()


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"author": "other"},
        {"description": "other"},
        {"license": "MIT"},
        {"derived_from": "other"},
        {"spec": {"binding": "torch"}},
        {"spec": {"dependencies": []}},
        {"unknown": 1},
        {"sources": [{"path": "./main.py", "content": builders.SOURCE}], "spec": {"entry_point": "./main.py::run"}},
    ],
)
def test_what_leaves_a_solution_the_same(change: dict[str, Any]) -> None:
    assert builders.solution(**change).hash() == builders.solution().hash()


def test_a_native_solution_without_binding_is_a_tvm_ffi_one() -> None:
    spec = {"language": "cuda"}
    default, explicit, torch = (
        builders.solution(spec={**spec, **binding}).hash()
        for binding in ({}, {"binding": "tvm-ffi"}, {"binding": "torch"})
    )
    assert default == explicit != torch


def test_the_order_of_sources_does_not_matter_but_every_byte_does() -> None:
    def of(*files: tuple[str, str]) -> str:
        return builders.solution(
            sources=[{"path": path, "content": content} for path, content in files], spec={"entry_point": "a::run"}
        ).hash()

    assert of(("a", "1"), ("b", "2")) == of(("b", "2"), ("a", "1"))
    # The public SHA-1 has no separators: these pairs collide there.
    assert of(("a", "1b"), ("c", "2")) != of(("a", "1"), ("bc", "2"))
    assert of(("a", "1"), ("b", "2")) != of(("a", "1b2"))


TENSOR = {"shape": ["batch_size", "hidden_size"], "dtype": "float32"}
COMMON: dict[str, Any] = {"inputs": {"x": TENSOR, "y": TENSOR}, "outputs": {"z": TENSOR}}


@pytest.mark.parametrize(
    "change",
    [
        {"axes": {"batch_size": {"type": "var"}, "hidden_size": {"type": "const", "value": 9}}},
        {"axes": {"batch_size": {"type": "var"}, "hidden_size": {"type": "var"}}},
        {"inputs": {"y": TENSOR, "x": TENSOR}},
        {"inputs": {"x": {**TENSOR, "dtype": "float16"}, "y": TENSOR}},
        {"inputs": {"x": {**TENSOR, "role": "static"}, "y": TENSOR}},
        {"inputs": {"x": {**TENSOR, "layout": "NHD"}, "y": TENSOR}},
        {"inputs": {"x": {**TENSOR, "optional": True}, "y": TENSOR}},
        {"inputs": {"x": {**TENSOR, "shape": None}, "y": TENSOR}},
        {"outputs": {"z": {**TENSOR, "inout": "x"}}},
        {"reference": builders.REFERENCE + "#"},
        {"constraints": ["batch_size > 0"]},
        {"comparator": {"kind": "lowbit"}},
        {"comparator": {"kind": "elementwise", "params": {"atol": 1}}},
        {"cost": {"bytes": "batch_size"}},
        {"cost": {"flops": "batch_size"}},
    ],
)
def test_what_changes_a_definition(change: dict[str, Any]) -> None:
    assert builders.definition(**{**COMMON, **change}).hash() != builders.definition(**COMMON).hash()


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"op_type": "other"},
        {"description": "other"},
        {"tags": ["status:verified"]},
        {"constraints": []},
        {"comparator": {"kind": "elementwise"}},
        {"comparator": {"kind": "elementwise", "params": {}}},
        {"cost": {}},
        {"inputs": {"x": {**TENSOR, "role": "dynamic", "optional": False, "description": "other"}, "y": TENSOR}},
        {"axes": {"hidden_size": {"value": 8}, "batch_size": {"description": "other"}}},
        {"unknown": 1},
    ],
)
def test_what_leaves_a_definition_the_same(change: dict[str, Any]) -> None:
    assert builders.definition(**{**COMMON, **change}).hash() == builders.definition(**COMMON).hash()


STORED = {"path": "a.safetensors", "tensor_key": "x"}


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"axes": {"n": 1}}, {"axes": {"n": 2}}),
        ({"axes": {"n": 1}}, {"axes": {"m": 1}}),
        ({"seed": 1}, {"seed": None}),
        ({"inputs": {"x": {"value": 1}}}, {"inputs": {"x": {"value": 1.0}}}),
        ({"inputs": {"x": {"value": 1}}}, {"inputs": {"x": {"value": True}}}),
        ({"inputs": {"x": {"value": 2**53}}}, {"inputs": {"x": {"value": 2**53 + 1}}}),
        ({"inputs": {"x": {}}}, {"inputs": {"x": {"distribution": {"kind": "normal"}}}}),
        ({"inputs": {"x": STORED}}, {"inputs": {"x": {**STORED, "sha256": "0"}}}),
        ({"inputs": {"x": STORED}}, {"inputs": {"x": {**STORED, "tensor_key": "y"}}}),
        (
            {"inputs": {"x": {"distribution": {"kind": "normal"}}}},
            {"inputs": {"x": {"distribution": {"kind": "normal", "std": 2}}}},
        ),
    ],
)
def test_what_changes_a_workload(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert builders.workload(**left).hash() != builders.workload(**right).hash()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"uuid": "a"}, {"uuid": "b"}),
        ({"weight": 1, "split": "hidden", "provenance": {"kind": "engine"}}, {}),
        ({"inputs": {"x": {}}}, {"inputs": {"x": {"type": "random"}}}),
        ({"axes": {"a": 1, "b": 2}}, {"axes": {"b": 2, "a": 1.0}}),
        (
            {"inputs": {"x": {"distribution": {"kind": "normal"}}}},
            {"inputs": {"x": {"distribution": {"kind": "normal", "mean": 0, "std": 1}}}},
        ),
    ],
)
def test_what_leaves_a_workload_the_same(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert builders.workload(**left).hash() == builders.workload(**right).hash()


def test_records_can_be_keys() -> None:
    assert len({builders.solution(), builders.solution(), builders.workload(), builders.definition()}) == 3
