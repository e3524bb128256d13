"""What a kernel's place in the table depends on: the few sizes that decide which kernel is fast.

Of a definition's variable axes:
- the size of a pool (`num_pages`, `num_blocks`) decides nothing: only what the index tensors name is read;
- an offset vector's length (`len_indptr`) follows from the number of sequences;
- a total over sequences (`num_kv_indices`, `total_kv`) counts as the mean length of one, which a step changes slowly.
All of them are read off shapes that the host has: no tensor's content is ever waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kernelmill.trace_schema import Definition

POOLS = frozenset({"num_pages", "num_blocks", "max_pages"})
OFFSETS = frozenset({"len_indptr"})
TOTALS = frozenset({"num_kv_indices", "total_kv"})
SEQUENCES = ("batch_size", "num_seqs")


class Feature(NamedTuple):
    """An axis's size, or its mean over another axis."""

    axis: str
    over: str | None = None

    def __str__(self) -> str:
        return f"{self.axis}/{self.over}" if self.over else self.axis

    def of(self, axes: Mapping[str, int]) -> int:
        return axes[self.axis] if self.over is None else axes[self.axis] // max(1, axes[self.over])

    @classmethod
    def parse(cls, text: str) -> Feature:
        axis, _, over = text.partition("/")
        return cls(axis, over or None)


def features_of(definition: Definition) -> tuple[Feature, ...]:
    """In the order of the definition's axes."""
    axes = definition.var_axes
    sequences = next((axis for axis in SEQUENCES if axis in axes), None)
    found = []
    for axis in axes:
        if axis in POOLS or (axis in OFFSETS and sequences):
            continue
        found.append(Feature(axis, sequences if axis in TOTALS and axis != sequences else None))
    return tuple(found)
