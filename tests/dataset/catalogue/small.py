"""Every template at constants so small that a test can afford it: the same code, other numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kernelmill.dataset.catalogue import Entry, Kernel
from kernelmill.dataset.catalogue.states import State, states
from kernelmill.dataset.catalogue.template import kinds, template
from kernelmill.dataset.catalogue.workloads import write_workloads
from kernelmill.evaluator.inputs import sample
from kernelmill.trace_schema import Distribution

KINDS = tuple(kinds())
# fmt: off
CONSTANTS: dict[str, int | float | str] = {
    "hidden_size": 256, "epsilon": 1e-5, "epsilon_suffix": "", "intermediate_size": 192, "N": 192, "K": 256,
    "head_size": 32, "rotary_dim": 16, "vocab_size": 1024, "embedding_dim": 64,
    "num_qo_heads": 8, "num_kv_heads": 2, "head_dim": 32, "page_size": 16,
    "head_dim_ckv": 64, "head_dim_kpe": 16, "qk_nope_head_dim": 32, "qk_dim": 48, "vo_dim": 32,
    "num_experts": 32, "num_local_experts": 16, "top_k": 4, "n_group": 8, "topk_group": 4,
    "routed_scaling_factor": 2.5, "sure_experts": 0, "num_q_heads": 2, "num_v_heads": 4,
    "nheads": 8, "dstate": 32, "ngroups": 2, "num_index_heads": 8, "index_head_dim": 32,
}
# fmt: on
WINDOW: dict[str, int | float | str] = {"window": 100, "seen": 100, "variant": "small_", "variant_text": "Small."}
WITHOUT_LAST_PAGE = ("gqa_paged_decode", "gqa_paged_prefill_causal", "mla_paged_decode", "mla_paged_prefill_causal")


def constants(kind: str) -> dict[str, int | float | str]:
    own: dict[str, int | float | str] = {}
    if kind in WITHOUT_LAST_PAGE:
        own["page_size"] = 1
    if kind == "rope_with_cos_sin_cache_neox_style":
        own["rotary_dim"] = 32
    if kind.endswith(("_window", "_sinks")):
        own |= WINDOW
    if "softcap" in kind or kind.endswith("_window"):
        own["soft_cap"], own["cap"] = 3.0, "3"
    if kind.startswith("dsa"):
        own |= {"topk": 512, "top_k": 512, "page_size": 64}
    return {**CONSTANTS, **own}


@cache
def entry(kind: str) -> Entry:
    chosen = constants(kind)
    return Entry(template(kind).definition(chosen), Kernel("test", kind, chosen), ())


def function(source: str) -> Callable[..., Any]:
    """The `run` of a source, as a judge gets it."""
    space: dict[str, Any] = {}
    exec(compile(source, "<source>", "exec"), space)
    run: Callable[..., Any] = space["run"]
    return run


@cache
def reference(kind: str) -> Callable[..., Any]:
    return function(entry(kind).definition.reference)


@cache
def solution(kind: str, way: str = "torch") -> Callable[..., Any]:
    return function(template(kind).solution(constants(kind), way).files["main.py"])


def run_solution(kind: str, given: list[Any], run: Callable[..., Any] | None = None) -> list[Tensor]:
    """A solution's outputs, the torch one's unless given: in poisoned memory or, in place, in its inputs' copies."""
    definition, expected = entry(kind).definition, outputs(reference(kind)(*given))
    inputs = [one.clone() if isinstance(one, Tensor) else one for one in given]
    found, passed = [], []
    for spec, right in zip(definition.outputs.values(), expected, strict=True):
        if spec.inout:
            found.append(inputs[list(definition.inputs).index(spec.inout)])
        else:
            passed.append(torch.full_like(right, 77))
            found.append(passed[-1])
    (run or solution(kind))(*inputs, *passed)
    return [one for one in found if isinstance(one, Tensor)]


def calls(kind: str) -> list[State]:
    """Every other one of the workloads' calls, from the smallest on: what a test can afford."""
    return list(states(entry(kind)))[::2]


def arguments(kind: str, state: State, **given: Any) -> list[Any]:
    """One call's inputs in order, drawn as a judge draws them; `given` ones take their place."""
    torch.manual_seed(sum(state.axes.values()))
    made = template(kind)
    generator = torch.Generator().manual_seed(1)
    scalars = made.scalars(constants(kind))
    found: list[Any] = []
    for name, spec in entry(kind).definition.inputs.items():
        if name in given:
            found.append(given[name])
        elif name in scalars:
            found.append(scalars[name])
        elif name in state.tensors:
            found.append(torch.tensor(state.tensors[name], dtype=getattr(torch, spec.dtype.value)))
        else:
            shape = entry(kind).definition.shape(name, state.axes) or ()
            drawn = Distribution.model_validate(made.draws[name])
            found.append(sample(drawn, spec.dtype.value, shape, generator))
    return found


def outputs(found: Any) -> tuple[Tensor, ...]:
    return found if isinstance(found, tuple) else (found,)


def place(root: Path, kind: str) -> None:
    """The small definition as a dataset, with its workloads."""
    one = entry(kind)
    file = root / "definitions" / one.definition.op_type / f"{one.definition.name}.json"
    file.parent.mkdir(parents=True)
    file.write_text(one.definition.model_dump_json(exclude_unset=True))
    write_workloads(root, one)
