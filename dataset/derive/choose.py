"""Which states a definition is measured in: those it can meet, reduced to a few that stand for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from kernelmill.dataset.derive import reduce, traffic
from kernelmill.dataset.derive.recipes import ROPE_HEADS, ROW_AXES, SEQUENCE_AXES, Recipe, page_size
from kernelmill.dataset.derive.states import FEATURES, State, View, features, state
from kernelmill.trace_schema import Definition, TensorSpec
from kernelmill.trace_schema.constraints import evaluate
from kernelmill.trace_schema.errors import DatasetError

COUNT, COUNT_FINE, COUNT_HIDDEN = 32, 12, 12
"""Workloads of a definition: public, public with one token a page, hidden."""
CACHE_BYTES = 2 << 30
"""Of one layer's keys and values: a card of 141 GB with some forty layers holds no more."""
CALL_BYTES = 4 << 30
"""Of what grows with the traffic in all inputs and outputs of one call."""
FINE_TOKENS = 200_000
"""Cached tokens from which on pages of one token are not stored: their tables would be as large as the traffic."""
STORED_ELEMENTS = 1 << 16
"""Of index tensors whose size is that of tokens or of pages times sequences."""
PORTABLE_BYTES, PORTABLE_FLOPS = 9e7, 2e10
"""Most that one call of a portable definition may take: a CPU must judge it too."""

Mask: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Kept:
    """A state that stands for `steps` steps of the replays."""

    state: State
    steps: int


class Population:
    """Every step of every replay, measured once for each view and page size; replays are made when first needed."""

    def __init__(self, plan: traffic.Plan) -> None:
        self.plan = plan
        self._runs: dict[int, list[traffic.Run]] = {}
        self._tables: dict[tuple[View, int], tuple[Any, list[tuple[int, int]]]] = {}
        self._picked: dict[tuple[Any, ...], list[Kept]] = {}

    def runs(self, pages: int) -> list[traffic.Run]:
        if pages not in self._runs:
            self._runs[pages] = list(self.plan.runs(pages))
        return self._runs[pages]

    def table(self, view: View, pages: int) -> tuple[Any, list[tuple[int, int]]]:
        """Features of every step that has something for the view, and which (run, step) each row is."""
        import numpy as np

        if (view, pages) not in self._tables:
            rows, places = [], []
            for number, run in enumerate(self.runs(pages)):
                for index, step in enumerate(run.replay.steps):
                    if (found := features(step, view)) is not None:
                        rows.append(found)
                        places.append((number, index))
            self._tables[view, pages] = np.array(rows, dtype=np.int64).reshape(-1, len(FEATURES[view])), places
        return self._tables[view, pages]

    def keep(self, definition: Definition, recipe: Recipe, *, portable: bool, seed: str | None) -> list[Kept]:
        """States of the public split, or of the hidden one where there is a seed."""
        pages = page_size(definition) if recipe.pages else 16
        table, places = self.table(recipe.view, pages)
        limits = _limits(definition, recipe, pages, portable)
        columns = dict(zip(FEATURES[recipe.view], table.T, strict=True))
        fits = _fits(columns, limits) & (recipe.stored(definition, columns) <= STORED_ELEMENTS)
        if not fits.any():
            raise DatasetError(f"{definition.name}: no step of the traffic is small enough for it ({limits})")
        key = (recipe.view, pages, seed, fits.tobytes())
        if key not in self._picked:
            self._picked[key] = self._pick(table[fits], [places[at] for at in fits.nonzero()[0]], recipe, pages, seed)
        return self._picked[key]

    def _pick(
        self, table: Any, places: Sequence[tuple[int, int]], recipe: Recipe, pages: int, seed: str | None
    ) -> list[Kept]:
        picks = reduce.public(table, COUNT_FINE if pages == 1 else COUNT)
        if seed is not None:
            picks = reduce.hidden(table, COUNT_HIDDEN, picks, f"{seed}/{recipe.view}/{pages}")
        runs = self.runs(pages)
        chosen = [(places[pick.row], pick.steps) for pick in picks]
        return [Kept(state(runs[run], index, recipe.view), steps) for (run, index), steps in chosen]


def _fits(columns: Mapping[str, Any], limits: Mapping[str, int]) -> Mask:
    import numpy as np

    masks = [columns[name] <= most for name, most in limits.items()]
    return np.logical_and.reduce(masks) if masks else np.ones(len(next(iter(columns.values()))), dtype=bool)


def _limits(definition: Definition, recipe: Recipe, pages: int, portable: bool) -> dict[str, int]:
    """The largest power of two of each feature at which a call, small in all else, is not too large."""
    limits = {}
    for name in FEATURES[recipe.view]:
        if name in ("tokens", "sequences", "cached"):
            sizes = (1 << power for power in range(25))
            fitting = [size for size in sizes if _is_small(definition, _axes(recipe.view, name, size, pages), portable)]
            limits[name] = max(fitting, default=0)
    if recipe.pages and pages == 1:
        limits["cached"] = min(limits["cached"], FINE_TOKENS)
    return limits


def _axes(view: View, feature: str, size: int, pages: int) -> dict[str, int]:
    """Axes of a step with `size` tokens, sequences or cached tokens and little else, by customary names."""
    several = size if feature in ("tokens", "sequences") else 1
    blocks = -(-max(size, several) // pages)
    sizes = dict.fromkeys((*ROW_AXES, *SEQUENCE_AXES, "total_seq_len", "total_num_tokens"), several)
    sizes |= dict.fromkeys(("state_cache_size", "pool_size", "num_slots"), several)
    sizes |= {"len_indptr": several + 1, "len_cu_seqlens": several + 1, "total_kv": max(size, several)}
    if view == "prefill":
        sizes |= {"len_indptr": 2, "len_cu_seqlens": 2, "batch_size": 1, "num_seqs": 1}
    return sizes | {"num_kv_indices": blocks, "num_pages": blocks + 2, "max_num_pages": blocks}


def _is_small(definition: Definition, axes: dict[str, int], portable: bool) -> bool:
    sizes = _resolved(definition, axes)
    least = _resolved(definition, dict.fromkeys(axes, 1))
    tensors = [*definition.inputs.values(), *definition.outputs.values()]
    caches = [spec for spec in tensors if {"num_pages", "total_kv"} & set(spec.shape or ())]
    if _bytes(caches, sizes) > CACHE_BYTES or _bytes(tensors, sizes) - _bytes(tensors, least) > CALL_BYTES:
        return False
    if not portable:
        return True
    flops = definition.cost.flops if definition.cost else None
    work = evaluate(flops, sizes) if flops else 0.0
    return _bytes(definition.inputs.values(), sizes) <= PORTABLE_BYTES and work <= PORTABLE_FLOPS


def _resolved(definition: Definition, axes: Mapping[str, int]) -> dict[str, int]:
    return definition.resolve_axes({name: axes.get(name, ROPE_HEADS.get(name, 8192)) for name in definition.var_axes})


def _bytes(tensors: Iterable[TensorSpec], sizes: Mapping[str, int]) -> float:
    return sum(prod(sizes[axis] for axis in spec.shape or ()) * spec.dtype.bytes for spec in tensors)
