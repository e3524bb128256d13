"""What an index tensor points into, read from its name; a name that no rule knows points nowhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

from kernelmill.dataset.checks.context import Case

LENGTHS = ("seq_lens", "kv_lens", "context_lens", "cache_seqlens")
_PAGES, _SLOTS = ("num_pages",), ("num_pages", "page_size")
_STATE = r"(state|cache|slot|pool)(_batch)?_(indices|ids)$"
_TABLE = r"^((paged_)?kv|(kv_)?page|(kv_)?block)_(indices|ids|tables?)$"
# The axes whose product is the number of things indexed: the first row whose axes all exist.
_RULES: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = (
    (_TABLE, (_PAGES, ("num_blocks",))),
    (r"^(sparse_indices|topk_indices|slot_mapping|out_cache_loc)$", (_SLOTS, ("num_blocks", "block_size"))),
    (_STATE, (("state_cache_size",), ("pool_size",), ("num_slots",))),
    (r"^(positions?|pos_ids|position_ids)$", (("max_seq_len",), ("max_position",), ("max_positions",))),
    (r"^((input|token|draft|target)_)?(token_)?ids$", (("vocab_size",),)),
    (r"^(expert_(ids|indices)|selected_experts)$", (("num_experts",),)),
)


class Bound(NamedTuple):
    end: int
    """The first value that is too large."""
    why: str


def bound(case: Case, name: str) -> Bound | None:
    """Valid values of the input are those from 0 to below the bound."""
    page_size = case.axes.get("page_size")
    if re.search(r"\b(packed|bits)\b", case.definition.inputs[name].description or ""):
        return None  # an index and something else in one number
    if name.endswith("last_page_len") and page_size is not None:
        return Bound(page_size + 1, f"page_size = {page_size}")
    if name in LENGTHS and page_size is not None:
        tables = [case.definition.shape(each, case.axes) for each in case.definition.inputs if re.search(_TABLE, each)]
        widths = [shape[1] for shape in tables if shape and len(shape) == 2]
        return Bound(widths[0] * page_size + 1, f"{widths[0]} pages of {page_size}") if widths else None
    axes = axes_behind(case.axes, name)
    return Bound(prod(case.axes[a] for a in axes), " * ".join(f"{a} = {case.axes[a]}" for a in axes)) if axes else None


def axes_behind(axes: Mapping[str, int], name: str) -> tuple[str, ...]:
    """The axes whose product is how many things an input of that name can point at; empty if it is no index."""
    for pattern, sizes in _RULES:
        for several in sizes if re.search(pattern, name) else ():
            if all(axis in axes for axis in several):
                return several
    return ()


def is_exclusive(name: str) -> bool:
    """Whether each row must have a slot of its own, for it is written to."""
    return re.search(_STATE, name) is not None


def used(case: Case, name: str, values: Any) -> Any:
    """The part of an index tensor that lengths or offsets say is in use; the rest is what was left in its memory."""
    import numpy as np

    if values.ndim == 2 and "page_size" in case.axes:
        lengths = next((found for each in LENGTHS if (found := case.integers(each)) is not None), None)
        if lengths is not None and lengths.shape == values.shape[:1]:
            pages = -(-lengths // case.axes["page_size"])
            return values[np.arange(values.shape[1]) < pages[:, None]]
    offsets = case.integers(name.rpartition("_")[0] + "_indptr")
    if values.ndim == 1 and offsets is not None:
        return values[: max(0, int(offsets[-1]))]
    return values.reshape(-1)
