"""The shipped dataset as tests use it: references as functions, small inputs, page tables."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kernelmill.dataset.catalogue import entries
from kernelmill.dataset.catalogue.pack import KERNELS
from kernelmill.trace_schema import Definition

DATA = KERNELS.parent / "data"
NAMES = tuple(json.loads((DATA / "demo.json").read_text()))
"""The definitions of the demo slice, which have kernels of their own and derived workloads."""
SCALE = 1 / math.sqrt(128)


@cache
def shipped_definition(name: str) -> Definition:
    return entries()[name].definition


@cache
def reference(name: str) -> Callable[..., Any]:
    """The `run` of a shipped reference, from its text, as a judge gets it."""
    space: dict[str, Any] = {}
    exec(compile(shipped_definition(name).reference, name, "exec"), space)
    run: Callable[..., Any] = space["run"]
    return run


def outputs_of(found: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return found if isinstance(found, tuple) else (found,)


def normal(*shape: int, std: float = 1.0, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return (torch.randn(shape) * std).to(dtype)


def indptr(lengths: Sequence[int]) -> Tensor:
    return torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32)


def pages(lengths: Sequence[int], num_pages: int) -> Tensor:
    """Scattered page ids, none used twice."""
    return torch.randperm(num_pages)[: sum(lengths)].to(torch.int32)


def inputs(name: str, rows: int) -> list[Any]:
    """Small valid inputs of a definition; `rows` tokens, or as many sequences of uneven lengths, the first empty."""
    torch.manual_seed(rows)
    return MAKERS[name](rows)


def uneven(rows: int) -> list[int]:
    return [(7 * i * i + 37 * i) % 90 for i in range(rows)]


def _rope(rows: int) -> list[Any]:
    angles = torch.rand(50, 64) * 2 * math.pi
    cached = torch.cat([angles.cos(), angles.sin()], dim=1)
    return [normal(rows, 32, 128), normal(rows, 8, 128), cached, torch.randint(50, (rows,))]


def _paged(queries: list[Tensor], tokens: Sequence[tuple[int, ...]]) -> list[Any]:
    """`tokens` are the shapes of one token in each cache."""
    lengths = uneven(len(queries[0]))
    count = sum(lengths) + 5
    caches = [normal(count, 1, *token) for token in tokens]
    return [*queries, *caches, indptr(lengths), pages(lengths, count), SCALE]


def _ragged(rows: int) -> list[Any]:
    lengths = uneven(rows)
    seen = [length + (11 * i) % 70 for i, length in enumerate(lengths)]
    keys = [normal(sum(seen), 8, 128), normal(sum(seen), 8, 128)]
    return [normal(sum(lengths), 32, 128, std=2.0), *keys, indptr(lengths), indptr(seen), SCALE]


MAKERS: dict[str, Callable[[int], list[Any]]] = {
    "rmsnorm_h4096": lambda rows: [normal(rows, 4096), normal(4096)],
    "fused_add_rmsnorm_h4096": lambda rows: [normal(rows, 4096), normal(rows, 4096, std=2.0), normal(4096)],
    "silu_and_mul_i14336": lambda rows: [normal(rows, 28672, std=3.0)],
    "gelu_tanh_and_mul_i21504": lambda rows: [normal(rows, 43008, std=3.0)],
    "gemm_bf16_n4096_k4096": lambda rows: [normal(rows, 4096), normal(4096, 4096, std=0.02)],
    "rope_with_cos_sin_cache_neox_style_d128_rd128": _rope,
    "log_softmax_v128256": lambda rows: [normal(rows, 128256, std=3.0, dtype=torch.float32)],
    "top_p_sampling_from_probs_v128256": lambda rows: [(torch.randn(rows, 128256) * 4).softmax(-1), torch.rand(rows)],
    "moe_softmax_routing_e128_topk8": lambda rows: [normal(rows, 128)],
    "gqa_paged_decode_h32_kv8_d128_ps1": lambda rows: _paged([normal(rows, 32, 128, std=2.0)], [(8, 128)] * 2),
    "mla_paged_decode_h16_ckv512_kpe64_ps1": lambda rows: _paged(
        [normal(rows, 16, 512), normal(rows, 16, 64)], [(512,), (64,)]
    ),
    "gqa_ragged_prefill_causal_h32_kv8_d128": _ragged,
}


def files(pattern: str) -> list[Path]:
    return sorted(DATA.glob(pattern))
