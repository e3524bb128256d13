"""The checks that look at values: constraints, index_bounds, indptr."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.dataset.checks.attention import found, lines, only, workload, write
from tests.dataset.folder import add_definition, add_workloads


@pytest.mark.parametrize(
    ("constraint", "holds"),
    [
        ("num_kv_indices == kv_indptr[-1].item()", True),
        ("num_kv_indices == kv_indptr[-2].item()", False),
        ("len_indptr == batch_size + 1", True),
        ("batch_size == 4", False),
        ("sm_scale > 0", True),
        ("sm_scale == 1", False),
        ("k_cache.shape[1] == page_size", True),
        ("k_cache.shape[0] == num_kv_indices", False),
        ("q.max() < 1", True),
        ("(q == 0).all()", True),
        ("q[0, 0, 0] > 0 or batch_size == 99", True),
        ("output.shape[0] == 99", True),
        ("bias.shape[0] == 99", True),
        ("__import__('os')", True),
    ],
)
def test_constraints_are_evaluated_over_axes_scalars_and_stored_tensors(
    root: Path, constraint: str, holds: bool
) -> None:
    """Where a value is random, an output or left out, nobody knows yet: then nothing is said."""
    write(root, constraints=[constraint])
    findings = found(root, "constraints")
    assert len(findings) == (0 if holds else 1)
    for finding in findings:
        assert (finding.severity, finding.line) == ("error", 1)
        assert constraint in finding.message


def test_a_broken_constraint_shows_the_axes_that_break_it(root: Path) -> None:
    write(root, workload(root, axes={"num_kv_indices": 6}), constraints=["num_kv_indices <= num_pages - 3"])
    assert "num_kv_indices = 6, num_pages = 8" in only(root, "constraints").message


def test_a_constraint_on_a_missing_blob_is_left_to_the_missing_blob(root: Path) -> None:
    write(root, constraints=["num_kv_indices == kv_indptr[-1].item()", "kv_indptr.shape[0] == 77"])
    for blob in (root / "blob").rglob("*.safetensors"):
        blob.unlink()
    assert found(root, "constraints") == []


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("kv_indices", [5, 0, 8, 1, 2, 3], "1 of 6 values are not in [0, 8), such as 8 (num_pages = 8)"),
        ("kv_indices", [5, 0, -2, 1, 2, 300], "2 of 6 values"),
        ("kv_last_page_len", [65, 1, 1], "page_size = 64"),
    ],
)
def test_indices_out_of_their_axis_are_errors(root: Path, name: str, values: list[int], message: str) -> None:
    tensors: dict[str, Any] = {name: values}
    finding = only(write(root, workload(root, **tensors)), "index_bounds")
    assert finding.severity == "error" and finding.path == f"$.workload.inputs.{name}"
    assert message in finding.message


def test_minus_one_is_padding_where_the_description_says_so(root: Path) -> None:
    given = workload(root, kv_indices=[5, 0, -1, 1, 2, 3])
    assert only(write(root, given), "index_bounds").severity == "warning"
    assert found(write(root, given, description="Pages; -1 is padding."), "index_bounds") == []


def test_what_lies_beyond_the_last_offset_is_not_looked_at(root: Path) -> None:
    given = workload(root, kv_indptr=[0, 2, 3, 5], kv_indices=[5, 0, 7, 1, 2, 12345])
    assert found(write(root, given), "index_bounds") == []


def test_a_page_that_a_sequence_names_twice_is_a_warning_and_sharing_is_not(root: Path) -> None:
    assert found(write(root, workload(root, kv_indices=[5, 0, 5, 5, 0, 3])), "index_bounds") == []
    finding = only(write(root, workload(root, kv_indices=[5, 5, 7, 1, 2, 3])), "index_bounds")
    assert finding.severity == "warning" and "twice" in finding.message


TABLE = {
    "name": "indexer",
    "op_type": "dsa_paged",
    "axes": {
        **{
            name: {"type": "var"}
            for name in ("batch_size", "max_num_pages", "num_pages", "state_cache_size", "max_seq_len")
        },
        **{name: {"type": "const", "value": size} for name, size in (("page_size", 4), ("num_experts", 8), ("top", 2))},
    },
    "inputs": {
        "cache": {"shape": ["num_pages", "page_size"], "dtype": "int8"},
        "block_table": {"shape": ["batch_size", "max_num_pages"], "dtype": "int32"},
        "seq_lens": {"shape": ["batch_size"], "dtype": "int32"},
        "state_batch_indices": {"shape": ["batch_size"], "dtype": "int32", "description": "-1 (PAD) skips."},
        "positions": {"shape": ["batch_size"], "dtype": "int64"},
        "sparse_indices": {"shape": ["batch_size", "top"], "dtype": "int32", "description": "Values of -1 pad."},
        "topk_ids": {
            "shape": ["batch_size", "top"],
            "dtype": "int32",
            "description": "Packed: high 16 bits an expert.",
        },
    },
    "outputs": {},
    "reference": "def run(*inputs):\n    return ()\n",
}


def table(root: Path, **over: Any) -> Path:
    values = {
        "block_table": [[0, 1, 99], [2, -7, 99]],
        "seq_lens": [8, 3],
        "state_batch_indices": [4, -1],
        "positions": [9, 9],
        "sparse_indices": [[11, -1], [0, 3]],
        "topk_ids": [[7 << 16, 0], [1, 2]],
        **over,
    }
    wide = {"positions": np.int64}
    (root / "blob").mkdir(exist_ok=True)
    arrays = {name: np.array(value, dtype=wide.get(name, np.int32)) for name, value in values.items()}
    save_file(arrays, root / "blob/t.safetensors")
    stored = {name: {"type": "safetensors", "path": "blob/t.safetensors", "tensor_key": name} for name in values}
    axes = {"batch_size": 2, "max_num_pages": 3, "num_pages": 3, "state_cache_size": 5, "max_seq_len": 10}
    add_definition(root, **TABLE)
    given = {"axes": axes, "inputs": {"cache": {"type": "random"}, **stored}}
    add_workloads(root, given, definition="indexer", op_type="dsa_paged")
    return root


def test_tables_slots_positions_and_padding_in_the_public_style_pass(root: Path) -> None:
    """Unused table entries may hold anything, packed numbers are no indices, two sequences may be at one position."""
    table(root)
    assert found(root, "workload") == [] and lines(root, "index_bounds") == []


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("block_table", [[0, 3, 99], [2, 0, 0]]),
        ("seq_lens", [13, 3]),
        ("state_batch_indices", [5, -1]),
        ("positions", [10, 0]),
        ("sparse_indices", [[12, -1], [0, 3]]),
    ],
)
def test_each_kind_of_index_is_held_to_its_axis(root: Path, name: str, values: list[Any]) -> None:
    errors = [
        finding for finding in found(table(root, **{name: values}), "index_bounds") if finding.severity == "error"
    ]
    assert f"$.workload.inputs.{name}" in [finding.path for finding in errors]


def test_two_rows_on_one_state_slot_are_a_warning(root: Path) -> None:
    finding = only(table(root, state_batch_indices=[3, 3]), "index_bounds")
    assert finding.severity == "warning" and "share one slot" in finding.message
    assert found(table(root, state_batch_indices=[-1, -1]), "index_bounds") == []


@pytest.mark.parametrize(
    ("offsets", "severity", "message"),
    [
        ([1, 2, 3, 6], "error", "starts at 1"),
        ([0, 3, 2, 6], "error", "falls from 3 to 2 at position 2"),
        ([0, 2, 3, 7], "error", "ends at 7, beyond the axis num_kv_indices = 6"),
        ([0, 2, 3, 5], "warning", "the other 1 of num_kv_indices = 6"),
    ],
)
def test_offsets_start_at_zero_rise_and_end_at_the_axis(
    root: Path, offsets: list[int], severity: str, message: str
) -> None:
    finding = only(write(root, workload(root, kv_indptr=offsets)), "indptr")
    assert finding.severity == severity and message in finding.message
    assert finding.path == "$.workload.inputs.kv_indptr"


@pytest.mark.parametrize(
    ("name", "axis"),
    [("qo_indptr", "total_q"), ("kv_indptr", "total_kv"), ("cu_seqlens", "total_seq_len"), ("kv_indptr", "unrelated")],
)
def test_ragged_offsets_are_held_to_their_total(root: Path, name: str, axis: str) -> None:
    add_definition(
        root,
        name="ragged",
        axes={axis: {"type": "var"}, "len_indptr": {"type": "var"}},
        inputs={"x": {"shape": [axis], "dtype": "float32"}, name: {"shape": ["len_indptr"], "dtype": "int64"}},
        outputs={},
        reference="def run(*inputs): ...",
    )
    (root / "blob").mkdir()
    save_file({name: np.array([0, 0, 9])}, root / "blob/r.safetensors")
    stored = {"type": "safetensors", "path": "blob/r.safetensors", "tensor_key": name}
    given = {"axes": {axis: 8, "len_indptr": 3}, "inputs": {"x": {"type": "random"}, name: stored}}
    add_workloads(root, given, definition="ragged")
    expected = [] if axis == "unrelated" else [("error", 1, f"{name} ends at 9, beyond the axis {axis} = 8")]
    assert lines(root, "indptr") == expected
