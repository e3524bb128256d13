"""Which comparator a definition gets that names none: by what it computes, whatever it is called."""

from __future__ import annotations

from typing import Any

import pytest

from kernelmill.evaluator.compare import KINDS, comparator_for
from kernelmill.evaluator.compare.defaults import comparator_of
from kernelmill.trace_schema import Definition
from kernelmill.trace_schema.errors import DatasetError
from tests.builders import raw_definition

Spec = tuple[str, str]
"""Axes, with spaces between, and dtype."""


def definition(inputs: dict[str, Spec], outputs: dict[str, Spec], **over: Any) -> Definition:
    def tensors(specs: dict[str, Spec]) -> dict[str, Any]:
        return {name: {"shape": axes.split(), "dtype": dtype} for name, (axes, dtype) in specs.items()}

    axes = {axis: {"type": "var"} for shape, _ in (*inputs.values(), *outputs.values()) for axis in shape.split()}
    return Definition.model_validate(
        raw_definition(axes=axes, inputs=tensors(inputs), outputs=tensors(outputs), name="anything", **over)
    )


BF16, F32, FP8, I32 = "bfloat16", "float32", "float8_e4m3fn", "int32"
CASES: dict[str, tuple[Definition, str, dict[str, Any]]] = {
    "norm": (definition({"x": ("b h", BF16)}, {"y": ("b h", BF16)}), "elementwise", {}),
    "attention": (
        definition({"q": ("b h d", BF16)}, {"out": ("b h d", BF16), "lse": ("b h", F32)}),
        "attention",
        {"output": "out", "lse": "lse"},
    ),
    "attention in float8": (
        definition({"q": ("b h d", FP8)}, {"output": ("b h d", BF16), "lse": ("b h", F32)}),
        "attention",
        {"output": "output", "lse": "lse"},
    ),
    "no attention without its shape": (
        definition({"q": ("b h d", BF16)}, {"out": ("b h d", BF16), "lse": ("b", F32)}),
        "elementwise",
        {},
    ),
    "indexer": (
        definition(
            {"q": ("b d", FP8), "seq_lens": ("b", I32), "block_table": ("b p", I32)}, {"topk_indices": ("b k", I32)}
        ),
        "topk_set",
        {"indices": "topk_indices", "pages": "block_table", "lengths": "seq_lens"},
    ),
    "argmax": (definition({"x": ("b h", F32)}, {"best": ("b", I32)}), "elementwise", {}),
    "permutation": (definition({"x": ("b h", F32)}, {"order": ("b h", I32)}), "elementwise", {}),
    "routing with weights": (
        definition({"x": ("b e", F32)}, {"w": ("b k", F32), "ids": ("b k", I32)}),
        "elementwise",
        {},
    ),
    "state in a pool": (
        definition(
            {"state": ("s h", F32), "state_batch_indices": ("b", I32), "x": ("b h", BF16)},
            {"y": ("b h", BF16), "new_state": ("s h", F32)},
        ),
        "state",
        {"state": ["new_state"], "indices": "state_batch_indices"},
    ),
    "state of its own": (
        definition({"state": ("b h", F32), "cu_seqlens": ("n", I32)}, {"new_state": ("b h", F32)}),
        "elementwise",
        {},
    ),
    "low-bit product": (definition({"a": ("m k", FP8), "b": ("n k", FP8)}, {"c": ("m n", BF16)}), "lowbit", {}),
    "quantisation": (definition({"x": ("b h", BF16)}, {"y": ("b h", FP8)}), "elementwise", {}),
    "sampling": (
        definition({"probs": ("b v", F32), "top_k": ("b", I32)}, {"ids": ("b", I32)}, op_type="sampling"),
        "sampling",
        {"probs": "probs", "top_k": "top_k", "samples": "ids"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_default_follows_from_the_tensors(name: str) -> None:
    judged, kind, params = CASES[name]
    chosen = comparator_of(judged)
    assert (chosen.kind, chosen.params) == (kind, params)
    comparator_for(judged)


def test_a_cache_updated_in_place_is_a_state() -> None:
    raw = definition(
        {"k": ("t h", BF16), "k_cache": ("s h", BF16), "slot_mapping": ("t", I32)}, {"k_after": ("s h", BF16)}
    ).model_dump(exclude_unset=True)
    raw["outputs"]["k_after"]["inout"] = "k_cache"
    chosen = comparator_of(Definition.model_validate(raw))
    assert (chosen.kind, chosen.params) == ("state", {"state": ["k_after"], "indices": "slot_mapping"})


def test_what_the_definition_names_comes_first() -> None:
    raw = definition({"a": ("m k", FP8)}, {"c": ("m k", BF16)}, comparator={"kind": "elementwise", "params": {}})
    assert comparator_of(raw).kind == "elementwise"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("elementwise", "lowbit")])
def test_missing_params_are_the_datasets_fault(kind: str) -> None:
    bare = definition({"x": ("b h", F32)}, {"y": ("b h", F32)}, comparator={"kind": kind, "params": {}})
    with pytest.raises(DatasetError, match=f"comparator {kind} needs"):
        comparator_for(bare)
