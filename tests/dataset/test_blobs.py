from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch

from kernelmill.dataset import Dataset, DatasetError
from kernelmill.trace_schema import SafetensorsInput
from tests import builders
from tests.dataset.folder import run_python, small

TENSORS: dict[str, np.ndarray[Any, Any]] = {
    "kv_indptr": np.array([0, 2, 5], dtype=np.int32),
    "top_p": np.array([0.9], dtype=np.float16),
}


def stored(root: Path, name: str = "a.safetensors") -> Path:
    (root / "blob").mkdir(exist_ok=True)
    save_file(TENSORS, root / "blob" / name)
    return root / "blob" / name


def spec(key: str = "kv_indptr", path: str = "./blob/a.safetensors", sha256: str | None = None) -> SafetensorsInput:
    return SafetensorsInput(type="safetensors", path=path, tensor_key=key, sha256=sha256)


def test_a_stored_tensor_comes_back_as_numpy_or_torch(root: Path) -> None:
    stored(root)
    dataset = Dataset.open(root)
    array = dataset.load_tensor(spec())
    assert isinstance(array, np.ndarray) and array.dtype == np.int32
    assert array.tolist() == [0, 2, 5]
    assert torch.equal(dataset.load_tensor(spec("top_p"), "torch"), torch.from_numpy(TENSORS["top_p"]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_what_numpy_lacks_comes_back_as_torch(root: Path, dtype: torch.dtype) -> None:
    (root / "blob").mkdir()
    save_torch({"x": torch.ones(3).to(dtype)}, root / "blob/a.safetensors")
    tensor = Dataset.open(root).load_tensor(spec("x"))
    assert tensor.dtype == dtype and tensor.float().tolist() == [1, 1, 1]


def test_a_missing_key_names_those_that_are_there(root: Path) -> None:
    stored(root)
    with pytest.raises(DatasetError, match="no tensor 'other'; it holds kv_indptr, top_p"):
        Dataset.open(root).load_tensor(spec("other"))


def test_a_missing_or_broken_file_is_a_dataset_error(root: Path) -> None:
    dataset = Dataset.open(root)
    with pytest.raises(DatasetError, match=r"blob/a.safetensors is missing"):
        dataset.load_tensor(spec())
    stored(root).write_bytes(b"\x00" * 20)
    with pytest.raises(DatasetError, match="no readable safetensors file"):
        dataset.load_tensor(spec())
    (root / "blob/folder").mkdir()
    with pytest.raises(DatasetError, match="cannot be read"):
        dataset.load_tensor(spec(path="blob/folder"))


def test_a_given_sha256_is_checked_even_after_the_file_changed(root: Path) -> None:
    path = stored(root)
    right = hashlib.sha256(path.read_bytes()).hexdigest()
    dataset = Dataset.open(root)
    assert dataset.load_tensor(spec(sha256=right.upper())).tolist() == [0, 2, 5]
    with pytest.raises(DatasetError, match="has SHA-256"):
        dataset.load_tensor(spec(sha256="0" * 64))
    dataset.load_tensor(spec(sha256=right))
    save_file({"kv_indptr": np.array([0, 2, 6], dtype=np.int32)}, path)
    with pytest.raises(DatasetError, match="has SHA-256"):
        dataset.load_tensor(spec(sha256=right))


def test_tensors_are_stored_by_content_and_used_by_a_workload(root: Path) -> None:
    dataset = Dataset.open(small(root))
    first = dataset.add_blob("rmsnorm_h8", TENSORS)
    again = dataset.add_blob("rmsnorm_h8", dict(reversed(TENSORS.items())))
    assert first == again
    assert first["kv_indptr"].path.startswith("blob/workloads/rmsnorm/rmsnorm_h8/rmsnorm_h8_")
    assert len(list((root / "blob").rglob("*.safetensors"))) == 1
    other = dataset.add_blob("rmsnorm_h8", {"kv_indptr": torch.tensor([0, 1])})
    assert other["kv_indptr"].path != first["kv_indptr"].path
    inputs = {name: builders.plain(each) for name, each in first.items()}
    dataset.append(builders.trace(workload={"uuid": "stored", "inputs": inputs}, evaluation=None))
    *_, workload = dataset.workloads("rmsnorm_h8")
    given = workload.inputs["kv_indptr"]
    assert isinstance(given, SafetensorsInput)
    assert dataset.load_tensor(given).tolist() == [0, 2, 5]


def test_reading_numpy_tensors_does_not_import_torch(root: Path) -> None:
    stored(root)
    program = """
import sys
from kernelmill.dataset import Dataset
from kernelmill.trace_schema import SafetensorsInput
given = SafetensorsInput(path="blob/a.safetensors", tensor_key="kv_indptr")
Dataset.open(sys.argv[1]).load_tensor(given)
assert "torch" not in sys.modules
"""
    ran = run_python(program, root)
    assert ran.returncode == 0, ran.stderr
