from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch

from tests.dataset.checks.attention import found, only, workload, write
from tests.dataset.folder import add_definition, add_workloads


def test_stored_tensors_as_declared_pass(root: Path) -> None:
    assert found(write(root), "workload") == []


@pytest.mark.parametrize("axes", [{"batch_size": 2}, {"num_kv_indices": 7}, {"len_indptr": 5}])
def test_a_stored_shape_that_the_axes_contradict_is_an_error(root: Path, axes: dict[str, int]) -> None:
    write(root, workload(root, axes=axes))
    finding = only(root, "workload")
    assert finding.severity == "error" and "the stored tensor is int32[" in finding.message


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        ({"axes": {"rows": 2}}, "$.workload.axes", "no axis 'rows'"),
        ({"axes": {"batch_size": 4, "hidden_size": 9}}, "$.workload.axes", "always 8, not 9"),
        ({"axes": {}}, "$.workload.axes", "needs a size"),
        ({"inputs": {"weight": {"type": "random"}}}, "$.workload.inputs.hidden_states", "missing"),
        (
            {"inputs": {name: {"type": "random"} for name in ("hidden_states", "weight", "extra")}},
            "$.workload.inputs.extra",
            "no such input",
        ),
        (
            {"inputs": {"hidden_states": {"type": "random"}, "weight": {"type": "scalar", "value": 1}}},
            "$.workload.inputs.weight",
            "a tensor is needed",
        ),
    ],
)
def test_a_workload_that_does_not_fit_its_definition_is_an_error(
    root: Path, change: dict[str, Any], path: str, message: str
) -> None:
    add_definition(root)
    add_workloads(root, {"uuid": "good"}, change)
    finding = only(root, "workload")
    assert (finding.severity, finding.line, finding.path) == ("error", 2, path)
    assert message in finding.message


def test_a_constant_axis_may_be_repeated_and_an_optional_input_left_out(root: Path) -> None:
    add_definition(
        root,
        inputs={
            "hidden_states": {"shape": ["batch_size", "hidden_size"], "dtype": "float32"},
            "weight": {"shape": ["hidden_size"], "dtype": "float32", "optional": True},
        },
    )
    add_workloads(root, {"axes": {"batch_size": 2, "hidden_size": 8}, "inputs": {"hidden_states": {"type": "random"}}})
    assert found(root, "workload") == []


def test_scalars_are_numbers_of_their_kind(root: Path) -> None:
    first, second = workload(root), workload(root, "w2")
    first["inputs"]["sm_scale"] = first["inputs"]["kv_indptr"]
    write(root, first, second)
    assert "a Python scalar is needed, not a stored tensor" in [finding.message for finding in found(root, "workload")]
    add_definition(root, name="counted", inputs={"n": {"shape": None, "dtype": "int32"}})
    add_workloads(root, {"inputs": {"n": {"type": "scalar", "value": 2.5}}}, definition="counted")
    warnings = [finding for finding in found(root, "workload") if finding.severity == "warning"]
    assert [finding.path for finding in warnings] == ["$.workload.inputs.n.value"]


def test_a_uuid_is_used_once(root: Path) -> None:
    write(root, workload(root), workload(root, "w2"), workload(root))
    finding = only(root, "workload")
    assert finding.line == 3 and f"{finding.file}:1 already" in finding.message


def test_workloads_of_an_unknown_definition_are_errors(root: Path) -> None:
    add_workloads(root, {}, definition="unheard")
    assert "no definition 'unheard'" in only(root, "workload").message


def test_a_key_that_the_file_lacks_names_those_it_has(root: Path) -> None:
    write(root, workload(root, kv_last_page_len=None))
    finding = only(root, "workload")
    assert finding.path.endswith("kv_last_page_len.tensor_key") and "kv_indices, kv_indptr" in finding.message


def test_a_stored_dtype_that_differs_is_an_error(root: Path) -> None:
    write(root)
    (blob,) = (root / "blob").rglob("*.safetensors")
    save_file({name: np.array(value) for name, value in (("kv_indptr", [0, 2, 3, 6]),)}, blob)
    messages = [finding.message for finding in found(root, "workload")]
    assert "the stored tensor is int64[4], not int32[4]" in messages


def test_bfloat16_tensors_are_described_without_numpy_knowing_them(root: Path) -> None:
    write(root)
    given = workload(root)
    save_torch({"q": torch.zeros(3, 4, 8, dtype=torch.bfloat16)}, root / "blob/q.safetensors")
    given["inputs"]["q"] = {"type": "safetensors", "path": "blob/q.safetensors", "tensor_key": "q"}
    write(root, given)
    assert found(root, "workload") == []


@pytest.mark.parametrize("path", ["../outside.safetensors", "/etc/hostname"])
def test_a_blob_outside_the_dataset_is_an_error(root: Path, path: str) -> None:
    given = workload(root)
    given["inputs"]["kv_indptr"]["path"] = path
    finding = only(write(root, given), "workload")
    assert finding.severity == "error" and repr(path) in finding.message


def test_a_wrong_sha256_is_an_error(root: Path) -> None:
    given = workload(root)
    (blob,) = (root / "blob").rglob("*.safetensors")
    given["inputs"]["kv_indptr"]["sha256"] = hashlib.sha256(blob.read_bytes()).hexdigest()
    given["inputs"]["kv_indices"]["sha256"] = "0" * 64
    finding = only(write(root, given), "workload")
    assert finding.path.endswith("kv_indices") and "SHA-256" in finding.message


def test_bad_lines_are_errors_with_their_place(root: Path) -> None:
    write(root)
    (file,) = (root / "workloads").rglob("*.jsonl")
    file.write_text(file.read_text() + "{oops\n")
    finding = only(root, "workload")
    assert (finding.severity, finding.line) == ("error", 2)
