"""The shipped files: they load, hold their constraints, and are what their sources give."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from safetensors.torch import load_file

from kernelmill.dataset import Dataset
from kernelmill.dataset.catalogue import entries
from kernelmill.dataset.catalogue.pack import definitions, solutions, write
from kernelmill.dataset.catalogue.workloads import is_synthetic
from kernelmill.dataset.validate import validate
from kernelmill.evaluator.run import is_for
from kernelmill.trace_schema import Definition, RandomInput, SafetensorsInput, ScalarInput, Workload
from kernelmill.trace_schema.constraints import check, evaluate
from tests.dataset.shipped import DATA, NAMES, files, shipped_definition

BLOB_BYTES = 40 << 20
INPUT_BYTES = 128 << 20
SOURCES = "KERNELMILL_TRAFFIC"
"""Folder with the request traces, where they are at hand."""


@pytest.fixture
def dataset() -> Dataset:
    return Dataset.open(DATA)


def workloads(dataset: Dataset, name: str) -> Iterator[Workload]:
    found = list(dataset.workloads(name))
    assert found, f"{name} has no workloads"
    return iter(found)


def test_nothing_is_wrong_with_any_file(dataset: Dataset) -> None:
    assert dataset.problems() == []
    assert set(dataset.definitions) == set(entries())
    assert set(NAMES) <= set(entries())


def test_a_strict_validation_finds_nothing(dataset: Dataset) -> None:
    assert [str(one) for one in validate(dataset, strict=True) if one.severity != "info"] == []


def test_packed_files_are_what_their_sources_give(tmp_path: Path) -> None:
    derived = [file for file in files("workloads/*/*.jsonl") if not is_synthetic(file)]
    for file in derived:
        place = tmp_path / file.relative_to(DATA)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.read_bytes())
    written = {file.relative_to(tmp_path): file.read_bytes() for file in write(tmp_path)}
    shipped = files("definitions/*/*.json") + files("solutions/*/*/*/*.json") + files("blob/workloads/shared/*")
    shipped += [file for file in files("workloads/*/*.jsonl") if file not in derived]
    assert {file.relative_to(DATA): file.read_bytes() for file in shipped} == written


@pytest.mark.parametrize("name", NAMES)
def test_constraints_hold_in_every_workload(dataset: Dataset, name: str) -> None:
    definition = dataset.definitions[name]
    for workload in workloads(dataset, name):
        axes, stored = definition.resolve_axes(workload.axes), tensors(definition, workload)
        for constraint in definition.constraints:
            assert check(constraint, axes, stored), f"{workload.uuid}: {constraint}"


def tensors(definition: Definition, workload: Workload) -> dict[str, object]:
    """The stored tensors of a workload, of the declared shapes and types."""
    found: dict[str, object] = {}
    for name, spec in workload.inputs.items():
        if isinstance(spec, SafetensorsInput):
            tensor = load_file(DATA / spec.path)[spec.tensor_key]
            assert tuple(tensor.shape) == definition.shape(name, workload.axes)
            assert f"{tensor.dtype}" == f"torch.{definition.inputs[name].dtype}"
            found[name] = tensor
    return found


@pytest.mark.parametrize("name", NAMES)
def test_workloads_are_complete_weighted_and_of_moderate_size(dataset: Dataset, name: str) -> None:
    definition, found = dataset.definitions[name], list(workloads(dataset, name))
    assert len(found) >= 8
    assert len({workload.hash() for workload in found}) == len(found)
    for workload in found:
        assert list(workload.inputs) == list(definition.inputs)
        assert workload.weight and workload.provenance and workload.split == "public"
        assert input_bytes(definition, workload) <= INPUT_BYTES


def input_bytes(definition: Definition, workload: Workload) -> float:
    total = 0.0
    for name, spec in definition.inputs.items():
        elements = 1
        for length in definition.shape(name, workload.axes) or ():
            elements *= length
        total += elements * spec.dtype.bytes
    return total


@pytest.mark.parametrize("name", NAMES)
def test_every_random_input_says_what_it_is_drawn_from(dataset: Dataset, name: str) -> None:
    for workload in workloads(dataset, name):
        for spec in workload.inputs.values():
            if isinstance(spec, RandomInput):
                assert spec.distribution and spec.distribution.kind != "constant"
            else:
                assert isinstance(spec, SafetensorsInput | ScalarInput)


def test_blobs_are_named_by_their_content_small_and_all_in_use(dataset: Dataset) -> None:
    used = {}
    for name in dataset.definitions:
        for workload in workloads(dataset, name):
            used.update({s.path: s.sha256 for s in workload.inputs.values() if isinstance(s, SafetensorsInput)})
    blobs = files("blob/**/*.safetensors")
    assert {file.relative_to(DATA).as_posix() for file in blobs} == set(used)
    assert sum(file.stat().st_size for file in blobs) < BLOB_BYTES
    for path, sha256 in used.items():
        assert hashlib.sha256((DATA / path).read_bytes()).hexdigest() == sha256 == Path(path).stem


@pytest.mark.parametrize("name", ["gqa_paged_decode_h32_kv8_d128_ps1", "mla_paged_decode_h16_ckv512_kpe64_ps1"])
def test_page_tables_are_scattered_and_within_the_cache(dataset: Dataset, name: str) -> None:
    scattered = False
    for workload in workloads(dataset, name):
        spec = workload.inputs["kv_indices"]
        assert isinstance(spec, SafetensorsInput)
        indices = load_file(DATA / spec.path)["kv_indices"]
        assert indices.min() >= 0 and indices.max() < workload.axes["num_pages"]
        offsets = load_file(DATA / spec.path)["kv_indptr"]
        for start, stop in pairwise(offsets.tolist()):
            assert len(set(indices[start:stop].tolist())) == stop - start, "a sequence reads each page once"
        scattered |= bool((indices.diff() != 1).any())
    assert scattered


def test_costs_are_positive_and_grow_with_the_workload(dataset: Dataset) -> None:
    for name in NAMES:
        cost = dataset.definitions[name].cost
        assert cost and cost.bytes and cost.flops
        axes = [dataset.definitions[name].resolve_axes(workload.axes) for workload in workloads(dataset, name)]
        moved = [evaluate(cost.bytes, one) for one in axes]
        assert moved == sorted(moved) and moved[0] > 0
        assert all(evaluate(cost.flops, one) > 0 for one in axes)


def test_stated_bytes_are_those_of_the_shapes() -> None:
    """Where every element is read or written once."""
    for name in ("rmsnorm_h4096", "fused_add_rmsnorm_h4096", "silu_and_mul_i14336", "gemm_bf16_n4096_k4096"):
        definition = shipped_definition(name)
        axes = definition.resolve_axes(dict.fromkeys(definition.var_axes, 3))
        total = 0.0
        for tensor, spec in (definition.inputs | definition.outputs).items():
            elements = 1
            for length in definition.shape(tensor, axes) or ():
                elements *= length
            total += elements * spec.dtype.bytes
        assert definition.cost and definition.cost.bytes
        assert evaluate(definition.cost.bytes, axes) == total


def test_the_demo_slice_takes_three_workloads_of_each_definition(dataset: Dataset) -> None:
    demo = json.loads((DATA / "demo.json").read_text())
    assert set(demo) == set(NAMES) and "rmsnorm_h4096" in demo
    for name, uuids in demo.items():
        assert len(set(uuids)) == 3
        assert set(uuids) <= {workload.uuid for workload in workloads(dataset, name)}


def test_each_definition_has_one_baseline_a_device_and_a_kernel_of_its_own() -> None:
    authors = Counter((one.definition, one.author, is_for(one, "cpu")) for one in solutions())
    languages = Counter((one.definition, one.spec.language.value) for one in solutions())
    for name in NAMES:
        assert authors[name, "baseline", True] == 1
        assert authors[name, "baseline", False] <= 1
        assert authors[name, "torch", True] >= 1
        assert languages[name, "cpp"] == 1


def test_definitions_speak_the_public_naming() -> None:
    for definition in definitions():
        assert definition.description and definition.cost
        assert any(tag.startswith("model:") for tag in definition.tags)
        assert any(tag.startswith("status:") for tag in definition.tags)


@pytest.mark.skipif(SOURCES not in os.environ, reason=f"set {SOURCES} to a folder with the recorded traffic")
def test_workloads_are_what_the_traffic_gives(tmp_path: Path) -> None:
    from kernelmill.dataset.derive.derive import derive_public
    from kernelmill.dataset.derive.traffic import plan

    for part in ("definitions", "workloads"):
        shutil.copytree(DATA / part, tmp_path / part)
    shutil.copy(DATA / "demo.json", tmp_path)
    derive_public(tmp_path, plan(Path(os.environ[SOURCES])))
    for pattern in ("workloads/*/*.jsonl", "blob/**/*.safetensors", "demo.json"):
        again = {file.relative_to(tmp_path): file.read_bytes() for file in tmp_path.glob(pattern)}
        assert {file.relative_to(DATA): file.read_bytes() for file in files(pattern)} == again
