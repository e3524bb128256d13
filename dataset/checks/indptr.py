"""Offsets that cut a packed axis into sequences: they start at 0, never fall, and end at or before the axis's end."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernelmill.dataset.checks.context import Case, Context
from kernelmill.dataset.checks.finding import Finding
from kernelmill.trace_schema import Definition

_OFFSETS = re.compile(r"(^|_)indptr$|^cu_(seq_?lens?|\w+_lens?|seqlens_\w+)$")
_PACKED = ("total_seq_len", "total_seqlen", "total_len", "total_tokens", "num_tokens", "total_q")


def is_offsets(name: str) -> bool:
    return _OFFSETS.search(name) is not None


def check(context: Context) -> Iterator[Finding]:
    for case in context.cases():
        for name in filter(is_offsets, case.definition.inputs):
            yield from _check(case, name)


def _check(case: Case, name: str) -> Iterator[Finding]:
    offsets = case.integers(name)
    if offsets is None or offsets.ndim != 1:
        return
    path = f"$.workload.inputs.{name}"
    if offsets[0] != 0:
        yield case.place.error(path, f"{name} starts at {offsets[0]}", "its first offset must be 0")
    falls = (offsets[1:] < offsets[:-1]).nonzero()[0]
    if falls.size:
        at = int(falls[0])
        message = f"{name} falls from {offsets[at]} to {offsets[at + 1]} at position {at + 1}"
        yield case.place.error(path, message, "offsets must not decrease")
    axis = packed_axis(case.definition, name)
    if axis is None:
        return
    last, size = int(offsets[-1]), case.axes[axis]
    if last > size:
        yield case.place.error(
            path, f"{name} ends at {last}, beyond the axis {axis} = {size}", "correct one of the two"
        )
    elif last < size:
        message = f"{name} ends at {last}: the other {size - last} of {axis} = {size} belong to no sequence"
        yield case.place.warning(path, message, "make the axis as long as what is used")


def packed_axis(definition: Definition, name: str) -> str | None:
    """The axis that the offsets cut: that of `kv_indices` for `kv_indptr` where there is one, else a `total_…` axis."""
    stem = name.removesuffix("indptr").strip("_")
    indices = definition.inputs.get(f"{stem}_indices")
    if indices is not None and indices.shape and len(indices.shape) == 1:
        return indices.shape[0]
    short = {"qo": "q", "q": "q", "kv": "kv", "k": "kv"}.get(stem)
    wanted = [f"total_{stem}", f"total_{short}"] if short else list(_PACKED) if not stem or stem == name else []
    return next((axis for axis in wanted if axis in definition.axes), None)
