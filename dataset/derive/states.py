"""What a kernel gets to see of a step: all its rows, the sampled ones, the sequences that decode or those that prefill.

Engines run the sequences with one new token and those with more through different kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kernelmill.dataset.derive.replay import Step
from kernelmill.dataset.derive.traffic import Run

if TYPE_CHECKING:
    from numpy.typing import NDArray

Ints: TypeAlias = "NDArray[Any]"
View = Literal["rows", "sampled", "decode", "prefill"]

FEATURES: dict[View, tuple[str, ...]] = {
    "rows": ("tokens",),
    "sampled": ("sequences",),
    "decode": ("sequences", "cached", "longest"),
    "prefill": ("tokens", "cached", "pairs", "sequences"),
}
"""What steps are told apart by. `cached` tokens are all that the new ones attend to, themselves included; `pairs` are
a query and a token that it sees; `longest` is the longest sequence."""
HOLE_EVERY = 8
"""Compacted caches keep at most one unused page in so many, and one at their end."""


@dataclass(frozen=True, slots=True)
class State:
    """One step as one view sees it; one element a sequence."""

    view: View
    new: Ints
    kv: Ints
    tables: tuple[Ints, ...]
    """Page ids of each sequence, in the order of its tokens."""
    num_pages: int
    slots: Ints
    """Where each sequence's recurrent state lives, and one beyond the last."""
    num_slots: int
    sampled: int
    page_size: int
    provenance: dict[str, Any]


def features(step: Step, view: View) -> tuple[int, ...] | None:
    """As in FEATURES; None where the step has nothing for this view."""
    if view == "rows":
        return (int(step.new.sum()),)
    if view == "sampled":
        return (step.sampled,) if step.sampled else None
    mine = step.new == 1 if view == "decode" else step.new > 1
    if not mine.any():
        return None
    new, kv = step.new[mine].astype(int), step.kv[mine].astype(int)
    if view == "decode":
        return len(kv), int(kv.sum()), int(kv.max())
    return int(new.sum()), int(kv.sum()), int((new * kv - new * (new - 1) // 2).sum()), len(kv)


def state(run: Run, index: int, view: View) -> State:
    """Step `index` of the run; its page tables as the allocator had them, in a cache without what others hold."""
    import numpy as np

    step = run.replay.steps[index]
    mine = {"decode": step.new == 1, "prefill": step.new > 1}.get(view, step.new > 0)
    admissions, new, kv = step.admissions[mine], step.new[mine], step.kv[mine]
    pages = [np.array(run.replay.pages(int(who), int(seen))) for who, seen in zip(admissions, kv, strict=True)]
    tables, num_pages = compact(pages)
    slots = np.array([run.replay.slots[int(who)] for who in admissions], dtype=np.int64)
    return State(
        view,
        new,
        kv,
        tables,
        num_pages,
        slots,
        int(slots.max()) + 1,
        step.sampled,
        run.page_size,
        {**run.provenance, "step": index, "start_s": round(step.start_s, 3), "view": view},
    )


def compact(tables: Sequence[Ints]) -> tuple[tuple[Ints, ...], int]:
    """The same tables over a cache with fewer pages, and how many it has: order and sharing stay, gaps shrink to one.

    An engine's pool is as large as the card; a workload's cache needs to hold no more than what its step reads.
    """
    import numpy as np

    used = np.unique(np.concatenate(list(tables)))
    gaps = np.flatnonzero(np.diff(used, prepend=-1) > 1)
    kept = np.zeros(len(used), dtype=np.int64)
    kept[gaps[:: max(1, -(-len(gaps) * HOLE_EVERY // max(1, len(used))))]] = 1
    moved = np.arange(len(used)) + np.cumsum(kept)
    return tuple(moved[np.searchsorted(used, table)] for table in tables), int(moved[-1]) + 2
