"""Every template's reference against an implementation that shares nothing with it, and its solution against it."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from kernelmill.dataset.catalogue.template import template
from kernelmill.evaluator.precision import Float64, widen
from tests.dataset.catalogue.independent import COMPUTE, support
from tests.dataset.catalogue.small import KINDS, arguments, calls, constants, entry, outputs, reference, run_solution

SAMPLERS = ("top_k", "top_p", "top_k_top_p", "min_p")
FREE = ("moe_softmax_routing", *(f"{name}_sampling_from_probs" for name in SAMPLERS))


def test_every_kind_is_written_a_second_time_or_sampled() -> None:
    assert set(COMPUTE) | set(FREE) == set(KINDS)


@pytest.mark.parametrize("kind", sorted(COMPUTE))
def test_a_reference_is_what_another_implementation_gives(kind: str) -> None:
    definition = entry(kind).definition
    for state in calls(kind):
        given = arguments(kind, state)
        named = dict(zip(definition.inputs, given, strict=True))
        expected = COMPUTE[kind](named, constants(kind))
        for found, right in zip(outputs(reference(kind)(*given)), expected, strict=True):
            if not found.dtype.is_floating_point:
                assert [set(row) for row in found.tolist()] == [set(row) for row in right.tolist()]
                continue
            tolerance = 2**-7 if found.dtype is torch.bfloat16 else 2e-5
            size = float(right[torch.isfinite(right)].square().mean().sqrt())
            torch.testing.assert_close(found.double(), right, rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize("kind", KINDS)
def test_a_reference_keeps_to_the_declared_shapes_and_types_also_in_float64(kind: str) -> None:
    definition, state = entry(kind).definition, calls(kind)[0]
    given = arguments(kind, state)
    found = outputs(reference(kind)(*given))
    assert [tuple(one.shape) for one in found] == [definition.shape(name, state.axes) for name in definition.outputs]
    assert [f"{one.dtype}" for one in found] == [f"torch.{spec.dtype}" for spec in definition.outputs.values()]
    with Float64():
        exact = outputs(reference(kind)(*map(widen, given)))
    assert all(one.dtype is torch.float64 for one in exact if one.dtype.is_floating_point)


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_stay_as_they_are(kind: str) -> None:
    given = arguments(kind, calls(kind)[0])
    before = [one.clone() if isinstance(one, Tensor) else one for one in given]
    reference(kind)(*given)
    for now, then in zip(given, before, strict=True):
        assert torch.equal(now, then) if isinstance(now, Tensor) else now == then


@pytest.mark.parametrize("kind", sorted(COMPUTE))
def test_a_torch_solution_agrees_with_the_reference(kind: str) -> None:
    for state in calls(kind):
        given = arguments(kind, state)
        expected = outputs(reference(kind)(*given))
        for found, right in zip(run_solution(kind, given), expected, strict=True):
            assert found.dtype is right.dtype
            if not right.dtype.is_floating_point:
                assert [set(row) for row in found.tolist()] == [set(row) for row in right.tolist()]
                continue
            tolerance = 2**-5 if right.dtype is torch.bfloat16 else 1e-3
            size = float(right[torch.isfinite(right)].double().square().mean().sqrt())
            torch.testing.assert_close(found.double(), right.double(), rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize("run", ["reference", "solution"])
def test_routing_takes_the_best_experts_and_shares_out_one(run: str) -> None:
    kind = "moe_softmax_routing"
    (logits,) = arguments(kind, calls(kind)[1])
    weights, ids = reference(kind)(logits) if run == "reference" else run_solution(kind, [logits])
    for row, values in enumerate(logits.double()):
        chosen = values[ids[row].long()]
        assert sorted(chosen.tolist()) == sorted(values.tolist())[-4:] and len(set(ids[row].tolist())) == 4
        torch.testing.assert_close(weights[row].double(), (chosen - chosen.logsumexp(0)).exp(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("run", ["reference", "solution"])
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_draws_from_its_support_in_proportion(name: str, run: str) -> None:
    kind, rows = f"{name}_sampling_from_probs", 4000
    torch.manual_seed(7)
    probs = (torch.randn(1024) * 2.0).softmax(dim=0)
    limits = {"top_k": 6, "top_p": 0.6, "min_p": 0.2}
    given: list[object] = [probs.expand(rows, -1).contiguous()]
    for wanted in list(entry(kind).definition.inputs)[1:]:
        dtype = torch.int32 if wanted == "top_k" else torch.float32
        given.append(torch.full((rows,), limits[wanted], dtype=dtype))
    drawn = reference(kind)(*given) if run == "reference" else run_solution(kind, given)[0]
    counts, right = Counter(drawn.tolist()), support(name, probs.double().tolist(), limits)
    assert len(right) > 1 and set(counts) <= set(right)
    for token, share in right.items():
        assert abs(counts[token] / rows - share) < 5 * math.sqrt(share * (1 - share) / rows) + 1e-9


def test_a_solution_says_what_it_is() -> None:
    for kind in KINDS:
        made = template(kind).solution(constants(kind))
        assert made.description and made.author == "baseline" and made.spec.destination_passing_style
