"""The workloads of the shipped dataset: every recipe, from the Azure conversation trace and the SGLang captures."""

from __future__ import annotations

from pathlib import Path

from kernelmill.dataset.catalogue.pack import definitions
from kernelmill.dataset.derive.moments import Moment, Size, captured_moment, moments, sizes, strata
from kernelmill.dataset.derive.recipes import RECIPES
from kernelmill.dataset.derive.traffic import Capture, azure_requests, sglang_captures
from kernelmill.dataset.derive.write import write_demo, write_workloads
from kernelmill.trace_schema import Workload

CAPTURED_MODEL = "llama-3.1-8b"
AZURE_TRACE = "AzureLLMInferenceTrace_conv"
CAPTURED_STEPS = 512
"""Decode steps in the recording that the SGLang captures are an even sample of."""


def write_shipped(azure: Path, sglang: Path, out: Path) -> dict[str, list[Workload]]:
    """Rewrites workloads, blobs and demo.json under `out`; the same inputs give the same bytes."""
    requests = azure_requests(azure)
    chosen = _choose(sizes(requests))
    every = [pick for picks in chosen.values() for pick in picks]
    found = dict(zip(every, moments(requests, every, AZURE_TRACE), strict=True))
    captured = _captured(sglang_captures(sglang))
    by_name = {definition.name: definition for definition in definitions()}
    written = []
    for name, recipe in RECIPES.items():
        kept = [found[pick] for pick in chosen[recipe.phase]]
        if recipe.model == CAPTURED_MODEL:
            kept += captured[recipe.phase]
        written.append((by_name[name], write_workloads(out, by_name[name], recipe, kept)))
    write_demo(out, written)
    return {definition.name: workloads for definition, workloads in written}


def _choose(population: list[Size]) -> dict[str, list[tuple[Size, int]]]:
    decode = [size for size in population if not size.prefill]
    prefill = [size for size in population if size.prefill]
    rows = strata(decode, lambda size: size.tokens, 10) + strata(prefill, lambda size: size.tokens, 8)
    return {
        "rows": rows,
        "sampled": strata([size for size in population if size.sampled], lambda size: size.sampled, 12),
        "decode": strata(decode, lambda size: size.kv, 10),
        "prefill": strata(prefill, lambda size: size.work, 12),
    }


def _captured(captures: list[Capture]) -> dict[str, list[Moment]]:
    """Of the captures by size: whole steps for row counts; shards, whose KV fits a small cache, for attention."""
    small, middle, large = captures[0], captures[len(captures) // 2], captures[-1]
    whole = captured_moment(small, 0, 1, CAPTURED_STEPS)
    share = CAPTURED_STEPS / 4
    shards = [(small, 2), (small, 4), (middle, 4), (large, 4)]
    decode = [captured_moment(capture, 1, count, share) for capture, count in shards]
    return {"rows": [whole], "sampled": [decode[1]], "decode": decode, "prefill": []}
