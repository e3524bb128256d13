"""What a sampler may give: the support of top-k, top-p, both and min-p is that of a walk over the ranked tokens."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelmill.evaluator.compare.sampling import FALSE_REJECT, SamplingExpectation, ks_uniform
from kernelmill.trace_schema import Verdict
from tests.dataset.catalogue.independent import support

LIMITS = {
    "top_k": st.integers(1, 40),
    "top_p": st.floats(0.05, 0.99),
    "min_p": st.floats(0.01, 0.9),
}


@pytest.mark.parametrize("name", ["top_k", "top_p", "top_k_top_p", "min_p"])
@given(data=st.data(), seed=st.integers(0, 1000))
def test_the_support_is_what_a_walk_over_the_ranked_tokens_keeps(name: str, data: st.DataObject, seed: int) -> None:
    probs = (torch.randn(40, generator=torch.Generator().manual_seed(seed)) * 2).double().softmax(dim=0)
    wanted = {limit: data.draw(values) for limit, values in LIMITS.items() if limit in name}
    limits = {limit: torch.tensor([value]) for limit, value in wanted.items()}
    allowed = SamplingExpectation("samples", probs.unsqueeze(0), limits).allowed[0]
    right = support(name, probs.tolist(), wanted)
    # A token at the very edge may be in or out by the comparator's slack for float32 sums.
    assert set(right) <= set(allowed.nonzero().flatten().tolist()) | edge(probs, right)
    assert set(allowed.nonzero().flatten().tolist()) <= set(right) | edge(probs, right)


def edge(probs: torch.Tensor, right: dict[int, float]) -> set[int]:
    """The next token after the support, where a limit falls within the slack of it."""
    ranked = probs.argsort(descending=True).tolist()
    return set(ranked[len(right) : len(right) + 1]) if len(right) < len(ranked) else set()


def test_top_p_counts_what_top_k_leaves() -> None:
    probs = torch.tensor([[0.4, 0.2, 0.2, 0.2]], dtype=torch.float64)
    limits = {"top_k": torch.tensor([2]), "top_p": torch.tensor([0.6])}
    expected = SamplingExpectation("samples", probs, limits)
    # Of 0.6 that two tokens hold, the first has two thirds: alone it reaches 0.6 of them.
    assert expected.allowed.tolist() == [[True, False, False, False]]
    assert expected.judge({"samples": torch.tensor([1])}).verdict is Verdict.INCORRECT_NUMERICAL


@pytest.mark.parametrize("kept", [[0, 1], [6, 7], list(range(8))], ids=["the first", "the last", "all"])
def test_which_of_equal_tokens_a_sampler_keeps_is_its_own_affair(kept: list[int]) -> None:
    probs = torch.full((200, 8), 0.125, dtype=torch.float64)
    expected = SamplingExpectation("samples", probs, {"top_k": torch.full((200,), 2)})
    sampled = {"samples": torch.tensor(kept)[torch.arange(200) % len(kept)]}
    assert expected.judge(sampled).verdict is None
    assert all(ks_uniform(order) > FALSE_REJECT for order in expected.uniforms(sampled))


def test_a_right_samplers_values_are_uniform_in_every_order() -> None:
    torch.manual_seed(0)
    probs = (torch.randn(4000, 100) * 2).double().softmax(-1)
    expected = SamplingExpectation("samples", probs, {"top_p": torch.full((4000,), 0.9)})
    sampled = {"samples": torch.multinomial(torch.where(expected.allowed, probs, 0.0), 1).flatten()}
    orders = expected.uniforms(sampled)
    assert len(orders) > 2
    assert all(ks_uniform(order) > 1e-4 for order in orders)


def test_min_p_is_a_share_of_the_largest() -> None:
    probs = torch.tensor([[0.5, 0.3, 0.15, 0.05]], dtype=torch.float64)
    expected = SamplingExpectation("samples", probs, {"min_p": torch.tensor([0.3])})
    assert expected.allowed.tolist() == [[True, True, True, False]]
