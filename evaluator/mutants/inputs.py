"""Mutants of what is computed: the reference's answer to inputs that a wrong kernel would see instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from kernelmill.evaluator.mutants.scene import Make, Mutant, Scene, Tensors
from kernelmill.trace_schema import Definition

SIGNIFICANT_BITS = {
    torch.float32: 11,
    torch.float16: 8,
    torch.bfloat16: 4,
    torch.float8_e4m3fn: 3,
    torch.float8_e5m2: 2,
}
"""Of the next type down: TF32, bfloat16, float8_e4m3, float8_e5m2, float4."""
DROPPED_SHARE = 0.05
BOUNDS = "kv_indptr"
PACKED = "kv_indices"
PRECISION = "name a stricter comparator, or give the inputs a distribution under which their last bits count"
SHARPER = "give queries and keys a distribution under which a few keys weigh more, or name the comparator attention"


def changed_inputs(definition: Definition) -> Iterator[Mutant]:
    """Lower precision for all; dropped keys and a shifted mask for attention, known by its offsets or lengths."""
    if any(spec.shape is not None and spec.dtype.is_float for spec in definition.inputs.values()):
        yield Mutant("one precision lower", lower_precision, PRECISION)
    lengths = lengths_of(definition)
    if BOUNDS in definition.inputs:
        yield Mutant("5 % of the keys dropped", _dropping(_oldest_seen(definition)), SHARPER)
    elif lengths is not None:
        yield Mutant("5 % of the keys dropped", _shortening(lengths), SHARPER)
    pages = definition.const_axes.get("page_size", 1)
    if BOUNDS in definition.inputs and "qo_indptr" in definition.inputs and pages == 1:
        yield Mutant("causal mask shifted by one", _dropping(newest), SHARPER)


def lower_precision(scene: Scene, number: int) -> Tensors:
    """Inputs and outputs rounded to the next type down."""
    answer = scene.ask({name: rounded(tensor) for name, tensor in scene.sets[number].tensors.items()})
    return {name: rounded(output) for name, output in answer.items()}


def rounded(tensor: torch.Tensor) -> torch.Tensor:
    """Every element to the significant bits of the next type down, with the exponent range of its own."""
    bits = SIGNIFICANT_BITS.get(tensor.dtype)
    if bits is None:
        return tensor
    fraction, exponent = torch.frexp(tensor.double())
    return torch.ldexp((fraction * 2**bits).round() / 2**bits, exponent).to(tensor.dtype)


class Span(NamedTuple):
    """The keys start..stop of one sequence."""

    start: int
    stop: int


Dropped = Callable[[Span], Span]
"""Which keys of a sequence are missed."""


def oldest_share(keys: Span) -> Span:
    return Span(keys.start, keys.start + int(DROPPED_SHARE * (keys.stop - keys.start)))


def _oldest_seen(definition: Definition) -> Dropped:
    """The oldest share; under a sliding window, the const axis `window` in tokens, of what the last query sees."""
    window, page_size = definition.const_axes.get("window", 0), definition.const_axes.get("page_size", 1)
    if not window:
        return oldest_share
    pages = -(-window // page_size)

    def dropped(keys: Span) -> Span:
        first = max(keys.start, keys.stop - pages)
        return Span(first, min(keys.stop, first + max(1, int(DROPPED_SHARE * (keys.stop - first)))))

    return dropped


def newest(keys: Span) -> Span:
    """The key of each sequence's last query. With a mask that ends at the corner, every query misses its own."""
    return Span(max(keys.start, keys.stop - 1), keys.stop)


def _dropping(dropped: Dropped) -> Make:
    def make(scene: Scene, number: int) -> Tensors | None:
        tensors = scene.sets[number].tensors
        axis = packed_axis(scene, int(tensors[BOUNDS][-1]))
        if axis is None:
            return None
        bounds, keep = shortened(tensors[BOUNDS], dropped)
        if not bool(keep.any()) or bool(keep.all()):
            return None
        left = {
            name: tensor[keep] if (scene.case.definition.inputs[name].shape or [""])[0] == axis else tensor
            for name, tensor in tensors.items()
        }
        return scene.ask({**left, BOUNDS: bounds}, {**scene.case.axes, axis: int(keep.sum())})

    return make


def packed_axis(scene: Scene, total: int) -> str | None:
    """The axis along which the sequences' keys, or their pages' indices, lie one after another."""
    inputs = scene.case.definition.inputs
    if PACKED in inputs:
        return next(iter(inputs[PACKED].shape or []), None)
    of_outputs = {axis for spec in scene.case.definition.outputs.values() for axis in spec.shape or []}
    heads = [spec.shape[0] for spec in inputs.values() if len(spec.shape or []) > 1 and spec.shape]
    return next((axis for axis in heads if axis not in of_outputs and scene.case.axes[axis] == total), None)


def shortened(bounds: torch.Tensor, dropped: Dropped) -> tuple[torch.Tensor, torch.Tensor]:
    """New offsets, and a mask over the packed keys: those that stay."""
    keep = torch.ones(int(bounds[-1]), dtype=torch.bool)
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        keep[slice(*dropped(Span(start, stop)))] = False
    before = torch.cat([torch.zeros(1, dtype=torch.int64), keep.long().cumsum(0)])
    return before[bounds.long()].to(bounds.dtype), keep


def lengths_of(definition: Definition) -> str | None:
    """The input that holds each sequence's length, where there are no offsets."""
    for name, spec in definition.inputs.items():
        if name.endswith("lens") and len(spec.shape or []) == 1 and not spec.dtype.is_float:
            return name
    return None


def _shortening(lengths: str) -> Make:
    def make(scene: Scene, number: int) -> Tensors | None:
        tensors = scene.sets[number].tensors
        kept = tensors[lengths] - (tensors[lengths] * DROPPED_SHARE).to(tensors[lengths].dtype)
        return None if torch.equal(kept, tensors[lengths]) else scene.ask({**tensors, lengths: kept})

    return make
