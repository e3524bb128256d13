"""Small definitions, calls of them, and what tracing made of these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from kernelmill.apply import apply
from kernelmill.dataset import Dataset
from kernelmill.dataset.validate import validate
from kernelmill.trace_schema import Definition, Workload
from tests import builders
from tests.apply.folder import BASELINE
from tests.apply.kernels import NORM, norm

PAGED = builders.definition(
    name="paged_sum_d4",
    op_type="gqa_paged",
    axes={
        "batch_size": {"type": "var"},
        "num_pages": {"type": "var"},
        "len_indptr": {"type": "var"},
        "num_kv_indices": {"type": "var"},
        "head_dim": {"type": "const", "value": 4},
    },
    inputs={
        "q": {"shape": ["batch_size", "head_dim"], "dtype": "float32"},
        "cache": {"shape": ["num_pages", "head_dim"], "dtype": "float32"},
        "kv_indptr": {"shape": ["len_indptr"], "dtype": "int32"},
        "kv_indices": {"shape": ["num_kv_indices"], "dtype": "int32"},
        "sm_scale": {"shape": None, "dtype": "float32"},
    },
    outputs={"output": {"shape": ["batch_size", "head_dim"], "dtype": "float32"}},
    constraints=["len_indptr == batch_size + 1", "num_kv_indices == kv_indptr[-1].item()"],
    reference="""\
import torch


def run(q, cache, kv_indptr, kv_indices, sm_scale):
    rows = [cache[kv_indices[a:b].long()].sum(0) for a, b in zip(kv_indptr[:-1], kv_indptr[1:])]
    return q + sm_scale * torch.stack(rows)
""",
)


def source(root: Path, *definitions: Definition) -> Path:
    """A dataset of definitions, with NORM's baseline."""
    root.mkdir(parents=True)
    made = Dataset.open(root)
    for definition in definitions or (NORM, PAGED):
        made.add_definition(definition)
        if definition is NORM:
            made.add_solution(BASELINE)
    return root


def call_norm(rows: int) -> torch.Tensor:
    """A call of NORM as a program makes it."""
    with torch.no_grad():
        result: torch.Tensor = apply(NORM.name, args=(torch.ones(rows, 8), torch.ones(8)), fallback=norm)
    return result


def paged(*lengths: int, pages: int = 64, scale: float = 0.5) -> tuple[Any, ...]:
    """Arguments of PAGED for sequences of these lengths, which share no page."""
    indptr = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    indices = torch.arange(sum(lengths), dtype=torch.int32)
    return torch.ones(len(lengths), 4), torch.ones(pages, 4), indptr, indices, scale


def call_paged(args: tuple[Any, ...]) -> None:
    apply(PAGED.name, args=args, fallback=lambda *given: given[0])


def workloads(root: Path, definition: Definition) -> list[Workload]:
    return list(Dataset.open(root).workloads(definition))


def weights(root: Path, definition: Definition) -> float:
    return sum(workload.weight or 0 for workload in workloads(root, definition))


def faults(root: Path) -> list[str]:
    """What a strict validation takes for an error."""
    return [str(found) for found in validate(Dataset.open(root), strict=True) if found.severity == "error"]
