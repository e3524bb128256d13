"""What the shipped definitions are together: how many, how different, whose, and that old ones stay what they were."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from functools import cache

import pytest

from kernelmill.dataset import Dataset
from kernelmill.dataset.catalogue import Entry, entries, model
from kernelmill.dataset.catalogue.states import scattered, states
from kernelmill.dataset.catalogue.template import kinds, template, with_constants
from kernelmill.dataset.checks.indexed import axes_behind
from kernelmill.trace_schema import Definition
from tests.dataset.shipped import DATA, files

PUBLISHED = {
    "fused_add_rmsnorm_h4096": "cca394ba2e2751d29f42f3534b994bbdb33c24a9b6620eafb38d9f802c941612",
    "gelu_tanh_and_mul_i21504": "630f962574a718b2bd5618cd71749d28d3a1bec4d759464c5063e3ffaefccefc",
    "gemm_bf16_n4096_k4096": "cef89796625986d799745b00b062c47ba981eb6be6b241c51f16af0e238841e1",
    "gqa_paged_decode_h32_kv8_d128_ps1": "fe4e36f5568d2705b452a4c081b11b58f4dae1b70a6acff2319a30dcee2d9df5",
    "gqa_ragged_prefill_causal_h32_kv8_d128": "913edd8870b7281afb88d43d811b378bd5bedd8f1429cf8b6d5d58fdf0e105ea",
    "log_softmax_v128256": "32027150cc851d76f556eca2bb381e2f50fa06be24cf4a8830b4cfe889741deb",
    "mla_paged_decode_h16_ckv512_kpe64_ps1": "e64bf20cd9ec8fe5e0606f33ae10ec3554b15b5fb83baecb1dbcded6d3e67d86",
    "moe_softmax_routing_e128_topk8": "d166ca5b450b73a05bcf58d3cf1421a69419329c942074ded5310849386ee509",
    "rmsnorm_h4096": "99f475464a413bf8bf0593c1407be353698ea5b6a6ddb8ac6e25c2c3ca1fdaff",
    "rope_with_cos_sin_cache_neox_style_d128_rd128": "267183e84f453bbcbfde0c6264d8cbc0484dda520b9e6120ceacf83b7f0cdd63",
    "silu_and_mul_i14336": "4a881c38dd2f27a83c912a6ade2c6852fc08c5d7bf76d830450eeb1cfa7be302",
    "top_p_sampling_from_probs_v128256": "c2916119ee20dbf5f9852f7f001465aff47db5254ffac2e9087b13c2ea2e960e",
}
"""Traces and solutions name these by their content."""


@cache
def shipped() -> dict[str, Definition]:
    """As the files have them."""
    read = [Definition.model_validate_json(file.read_text()) for file in files("definitions/*/*.json")]
    return {definition.name: definition for definition in read}


def test_what_was_published_stays_what_it_was() -> None:
    assert {name: shipped()[name].hash() for name in PUBLISHED} == PUBLISHED


def test_there_are_many_definitions_of_many_op_types() -> None:
    assert len(shipped()) >= 150
    assert len({definition.op_type for definition in shipped().values()}) >= 14
    assert {entry.kernel.kind for entry in entries().values()} == set(kinds()), "a template that no model calls for"


def stored_constants(definition: Definition) -> dict[str, object]:
    return {**definition.const_axes, **dict(re.findall(r"^([A-Z_]+) = (.*)$", definition.reference, re.MULTILINE))}


def independent_constants(definition: Definition) -> dict[str, object]:
    """Without those that follow from others, such as the width of gate and up together."""
    derived = {name for name, axis in template_axes(definition.name).items() if "value" in axis}
    found = {name: value for name, value in stored_constants(definition).items() if name not in derived}
    if {"topk", "top_k"} & found.keys():
        found.pop("TOP_K", None)
    return found


def template_axes(name: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = entries()[name].template.facts["axes"]
    return found


def distance(one: dict[str, object], other: dict[str, object]) -> int:
    return sum(one[name] != other[name] for name in one)


def families() -> list[list[Definition]]:
    """Definitions that differ in constants only: the same op type, axes and inputs, the same code but for numbers."""
    found = defaultdict(list)
    for definition in shipped().values():
        code = re.sub(r"^([A-Z_]+) = .*$", r"\1", definition.reference, flags=re.MULTILINE)
        found[definition.op_type, tuple(definition.axes), tuple(definition.inputs), code].append(definition)
    return list(found.values())


def test_at_least_sixty_differ_from_every_other_in_more_than_one_constant() -> None:
    alone = 0
    for family in families():
        constants = [stored_constants(definition) for definition in family]
        for number, mine in enumerate(constants):
            alone += all(distance(mine, other) > 1 for place, other in enumerate(constants) if place != number)
    assert alone >= 60


def test_at_least_a_hundred_differ_from_each_other_in_more_than_one_independent_constant() -> None:
    """Chosen one by one, such that each is far from all chosen before it."""
    chosen = 0
    for family in families():
        kept: list[dict[str, object]] = []
        for mine in map(independent_constants, sorted(family, key=lambda definition: definition.name)):
            if all(distance(mine, other) > 1 for other in kept):
                kept.append(mine)
        chosen += len(kept)
    assert chosen >= 100


def test_tags_say_which_models_call_and_on_how_many_ranks() -> None:
    for name, entry in entries().items():
        tags = shipped()[name].tags
        assert {tag for tag in tags if tag.startswith("model:")} == {
            f"model:{id}" for use in entry.uses for id in model(use.model).ids
        }
        ranks = {tag for tag in tags if re.fullmatch(r"(tp|ep):\d+", tag)}
        assert {tag.split(":")[1] for tag in ranks} == (
            {str(use.ranks) for use in entry.uses} if entry.template.facts["sharded"] else set()
        )


def test_a_template_fills_names_texts_and_code() -> None:
    made = template("rmsnorm").definition(
        {"hidden_size": 6, "epsilon": 1e-6, "epsilon_suffix": "_eps1e-6"}, ["model:x"]
    )
    assert (made.name, made.const_axes, made.tags[-1]) == ("rmsnorm_h6_eps1e-6", {"hidden_size": 6}, "model:x")
    assert "EPSILON = 1e-6\n" in made.reference and "Epsilon is 1e-6." in (made.description or "")
    assert with_constants("TOP_K = 1\n    TOP_K = 2\n", {"top_k": 5}) == "TOP_K = 5\n    TOP_K = 2\n"
    with pytest.raises(LookupError, match="0 templates are called 'nothing'"):
        template("nothing")


def test_every_definition_has_four_workloads_and_a_baseline() -> None:
    dataset = Dataset.open(DATA)
    baselines = Counter(json.loads(file.read_text())["definition"] for file in files("solutions/baseline/*/*/*.json"))
    for name in shipped():
        assert len(list(dataset.workloads(name))) >= 4
        assert baselines[name] >= 1


def test_places_are_scattered_and_different() -> None:
    assert sorted(scattered(1000, 1000)) == list(range(1000))
    assert all(abs(one - other) > 1 for one, other in zip(scattered(900, 1000), scattered(900, 1000)[1:], strict=False))


def of_kind(kind: str) -> Entry:
    return next(entry for entry in entries().values() if entry.kernel.kind == kind)


@pytest.mark.parametrize("kind", kinds())
def test_calls_name_every_axis_and_index_tensor_of_their_definition(kind: str) -> None:
    entry = of_kind(kind)
    for state in states(entry):
        assert set(state.axes) == set(entry.definition.var_axes)
        assert set(state.tensors) == set(entry.index_tensors)
        for name in state.tensors:
            spec = entry.definition.inputs[name]
            assert spec.dtype.value.startswith("int")
            counts = ("indptr", "lens", "seqlens", "page_len")
            assert axes_behind({**state.axes, **entry.definition.const_axes}, name) or name.endswith(counts)
