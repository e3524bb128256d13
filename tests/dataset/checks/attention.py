"""A paged decode definition in the public style, and workloads of it with their tensors stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from kernelmill.dataset import Dataset
from kernelmill.dataset.checks.finding import Finding
from kernelmill.dataset.validate import validate
from tests.dataset.folder import add_definition, add_workloads

NAME = "gqa_paged_decode_h4_kv2_d8_ps64"
REFERENCE = """
def run(q, k_cache, v_cache, kv_indptr, kv_indices, kv_last_page_len, sm_scale, bias=None):
    return q
"""
INDPTR, PAGES, LAST = [0, 2, 3, 6], [5, 0, 7, 1, 2, 3], [64, 1, 30]


def definition(**over: Any) -> dict[str, Any]:
    """Carries what public files carry beyond the schema: `parent` on axes, free tags, an optional input."""
    names = ("batch_size", "num_pages", "len_indptr", "num_kv_indices")
    axes: dict[str, Any] = {name: {"type": "var", "parent": "batch"} for name in names}
    axes |= {
        name: {"type": "const", "value": size}
        for name, size in (("heads", 4), ("kv_heads", 2), ("dim", 8), ("page_size", 64))
    }
    cache = {"shape": ["num_pages", "page_size", "kv_heads", "dim"], "dtype": "bfloat16"}
    return {
        "name": NAME,
        "op_type": "gqa_paged",
        "description": "Batched decode over a paged KV cache.",
        "tags": ["stage:decode", "status:verified", "fi_api:flashinfer.decode.Wrapper", "tp:1"],
        "constraints": [
            "len_indptr == batch_size + 1",
            "num_kv_indices == kv_indptr[-1].item()",
            "k_cache.shape[1] == page_size",
        ],
        "axes": axes,
        "inputs": {
            "q": {"shape": ["batch_size", "heads", "dim"], "dtype": "bfloat16"},
            "k_cache": cache,
            "v_cache": cache,
            "kv_indptr": {"shape": ["len_indptr"], "dtype": "int32"},
            "kv_indices": {"shape": ["num_kv_indices"], "dtype": "int32"},
            "kv_last_page_len": {"shape": ["batch_size"], "dtype": "int32"},
            "sm_scale": {"shape": None, "dtype": "float32"},
            "bias": {"shape": ["heads"], "dtype": "float32", "optional": True},
        },
        "outputs": {"output": {"shape": ["batch_size", "heads", "dim"], "dtype": "bfloat16"}},
        "reference": REFERENCE,
        **over,
    }


def workload(root: Path, uuid: str = "w1", axes: dict[str, int] | None = None, **tensors: Any) -> dict[str, Any]:
    """Its three index tensors are stored; `tensors` replaces them, and None leaves one out of the file."""
    values = {"kv_indptr": INDPTR, "kv_indices": PAGES, "kv_last_page_len": LAST, **tensors}
    arrays = {name: np.array(value, dtype=np.int32) for name, value in values.items() if value is not None}
    path = f"./blob/workloads/gqa_paged/{NAME}/{NAME}_{uuid}.safetensors"
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    save_file(arrays, root / path)
    stored = {name: {"type": "safetensors", "path": path, "tensor_key": name} for name in values}
    sizes = {"batch_size": 3, "num_pages": 8, "len_indptr": 4, "num_kv_indices": 6, **(axes or {})}
    random = {name: {"type": "random"} for name in ("q", "k_cache", "v_cache")}
    return {"uuid": uuid, "axes": sizes, "inputs": {**random, **stored, "sm_scale": {"type": "scalar", "value": 0.5}}}


def write(root: Path, *workloads: dict[str, Any], **over: Any) -> Path:
    add_definition(root, **definition(**over))
    add_workloads(root, *(workloads or (workload(root),)), definition=NAME, op_type="gqa_paged")
    return root


def found(root: Path, check: str, *, strict: bool = False) -> list[Finding]:
    return list(validate(Dataset.open(root), [check], strict=strict))


def lines(root: Path, check: str) -> list[tuple[str, int | None, str]]:
    """Severity, line and message of each finding."""
    return [(finding.severity.value, finding.line, finding.message) for finding in found(root, check)]


def only(root: Path, check: str) -> Finding:
    (finding,) = found(root, check)
    return finding
