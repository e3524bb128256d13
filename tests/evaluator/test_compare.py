"""Comparators: what a right answer may look like, and that nothing else passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelmill.evaluator.case import Case, Tensor
from kernelmill.evaluator.compare import comparator_for
from kernelmill.evaluator.compare.base import Expectation, Truth
from kernelmill.evaluator.compare.sampling import ks_uniform
from kernelmill.trace_schema import Comparator, Definition, Verdict, Workload
from kernelmill.trace_schema.errors import DatasetError
from tests.builders import raw_definition, raw_workload

Tensors = Mapping[str, torch.Tensor]


def case_of(definition: Definition, shape: tuple[int, ...], dtype: str) -> Case:
    output = Tensor("output", shape, dtype, "output")
    workload = Workload.model_validate(raw_workload())
    return Case(definition, workload, {}, (), (output,), MappingProxyType({}), MappingProxyType({}))


def expectation(declared: torch.Tensor, exact: torch.Tensor) -> Expectation:
    definition = Definition.model_validate(raw_definition())
    case = case_of(definition, tuple(declared.shape), str(declared.dtype).removeprefix("torch."))
    truth = Truth({"output": declared}, {"output": exact}, 0.001)
    return comparator_for(definition).prepare(case, {}, truth)


def rmsnorm(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)


def attention_like(rows: int = 64, keys: int = 4096, width: int = 128) -> torch.Tensor:
    """A mean over many values: small outputs, as attention over a long context gives."""
    weights = torch.softmax(torch.randn(rows, keys, dtype=torch.float64), -1)
    return weights @ torch.randn(keys, width, dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(
    "make", [lambda: rmsnorm(torch.randn(64, 512).double()), attention_like], ids=["norm", "attention"]
)
def test_honest_rounding_passes_and_small_lies_do_not(dtype: torch.dtype, make: Callable[[], torch.Tensor]) -> None:
    exact = make()
    judge = expectation(exact.to(dtype), exact).judge
    for honest in (exact, exact.float(), exact.to(dtype).double() * (1 + 2**-24)):
        assert judge({"output": honest.to(dtype)}).verdict is None
    lies = {
        "zeros": torch.zeros_like(exact),
        "constant": torch.full_like(exact, float(exact.mean())),
        "scaled by 1 %": exact * 1.01,
        "last row missing": torch.cat([exact[:-1], exact[:1]]),
        "rows shifted": exact.roll(1, 0),
        "one element off": exact.index_put((torch.tensor(3), torch.tensor(5)), exact.abs().max() * 2),
    }
    for name, lie in lies.items():
        assert judge({"output": lie.to(dtype)}).verdict is Verdict.INCORRECT_NUMERICAL, name


def test_a_lower_precision_fails() -> None:
    exact = rmsnorm(torch.randn(64, 512).double())
    judge = expectation(exact.float(), exact).judge
    for lower in (torch.bfloat16, torch.float16):
        assert judge({"output": exact.to(lower).float()}).verdict is Verdict.INCORRECT_NUMERICAL


def test_a_sum_in_another_order_passes() -> None:
    values = torch.randn(16, 4096)
    exact = values.double().sum(-1, keepdim=True).expand(16, 8).contiguous()
    judge = expectation(values.sum(-1, keepdim=True).expand(16, 8).contiguous(), exact).judge
    backwards = values.flip(-1).cumsum(-1)[:, -1:].expand(16, 8).contiguous()
    assert judge({"output": backwards}).verdict is None


def test_dropping_a_twentieth_of_the_context_fails() -> None:
    weights = torch.softmax(torch.randn(8, 65536, dtype=torch.float64), -1)
    values = torch.randn(65536, 64, dtype=torch.float64)
    exact = weights @ values
    kept = weights[:, : 65536 * 19 // 20]
    dropped = (kept / kept.sum(-1, keepdim=True)) @ values[: 65536 * 19 // 20]
    assert float((dropped - exact).abs().max()) < 1e-2  # what a fixed tolerance of 0.01 would let pass
    assert (
        expectation(exact.bfloat16(), exact).judge({"output": dropped.bfloat16()}).verdict
        is Verdict.INCORRECT_NUMERICAL
    )


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_one_wrong_non_finite_value_fails(bad: float) -> None:
    exact = torch.randn(100, 100).double()
    wrong = exact.float()
    wrong[57, 91] = bad
    assert expectation(exact.float(), exact).judge({"output": wrong}).verdict is Verdict.INCORRECT_NUMERICAL


def test_a_true_minus_infinity_is_right_and_must_be_there() -> None:
    exact = torch.randn(4, 8).double()
    exact[2] = -torch.inf
    judge = expectation(exact.float(), exact).judge
    assert judge({"output": exact.float()}).verdict is None
    assert judge({"output": torch.nan_to_num(exact.float(), neginf=-1e30)}).verdict is Verdict.INCORRECT_NUMERICAL


def test_a_reference_that_gives_nan_is_the_datasets_fault() -> None:
    with pytest.raises(DatasetError, match="gives NaN"):
        expectation(torch.tensor([[float("nan")]]), torch.tensor([[float("nan")]]).double())


def test_integers_and_booleans_must_be_equal() -> None:
    exact = torch.arange(12).reshape(3, 4)
    judge = expectation(exact, exact).judge
    assert judge({"output": exact.clone()}).verdict is None
    assert judge({"output": exact + (exact == 7)}).verdict is Verdict.INCORRECT_NUMERICAL


def test_empty_outputs_are_right() -> None:
    empty = torch.empty(0, 8)
    assert expectation(empty, empty.double()).judge({"output": empty}).verdict is None


@settings(max_examples=40, deadline=None)
@given(scale=st.floats(1e-30, 1e30), seed=st.integers(0, 1 << 30))
def test_the_verdict_does_not_depend_on_the_scale(scale: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    exact = torch.randn(8, 64, generator=generator, dtype=torch.float64) * scale
    judge = expectation(exact.bfloat16(), exact).judge
    assert judge({"output": exact.bfloat16()}).verdict is None
    assert judge({"output": (exact * 1.02).bfloat16()}).verdict is Verdict.INCORRECT_NUMERICAL


def sampler(top_p: bool = True) -> Definition:
    inputs = {"probs": {"shape": ["b", "v"], "dtype": "float32"}}
    if top_p:
        inputs["top_p"] = {"shape": ["b"], "dtype": "float32"}
    return Definition.model_validate(
        raw_definition(
            name="top_p_sampling",
            op_type="sampling",
            axes={"b": {"type": "var"}, "v": {"type": "const", "value": 1000}},
            inputs=inputs,
            outputs={"samples": {"shape": ["b"], "dtype": "int64"}},
        )
    )


def nucleus(probs: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    ordered, ids = probs.double().sort(-1, descending=True)
    keep = ordered.cumsum(-1) - ordered < top_p.reshape(-1, 1)
    return torch.zeros_like(probs, dtype=torch.float64).scatter(1, ids, torch.where(keep, ordered, 0.0))


Sampler = Callable[[torch.Tensor], torch.Tensor]


def judged(sample: Sampler, rows: int = 32, calls: int = 24, temperature: float = 2.0) -> Verdict | None:
    """The verdict on a sampler that is given the masked probabilities, over several calls with new inputs."""
    definition = sampler()
    compare = comparator_for(definition)
    case = case_of(definition, (rows,), "int64")
    seen: list[tuple[Expectation, Tensors]] = []
    for _ in range(calls):
        inputs = {
            "probs": torch.softmax(torch.randn(rows, 1000) * temperature, -1),
            "top_p": torch.empty(rows).uniform_(0.5, 0.95),
        }
        expected = compare.prepare(case, inputs, Truth({}, None, 0.0))
        outputs = {"samples": sample(nucleus(inputs["probs"], inputs["top_p"]))}
        found = expected.judge(outputs)
        if found.verdict is not None:
            return found.verdict
        seen.append((expected, outputs))
    return compare.conclude(seen)[0].verdict


def only(masked: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
    """Sampled as is right, but from a part of the vocabulary."""
    part = torch.where(read, masked, 0.0)
    return torch.multinomial(torch.where(part.sum(-1, keepdim=True) > 0, part, masked), 1).flatten()


def test_a_right_sampler_passes() -> None:
    torch.manual_seed(0)
    assert judged(lambda masked: torch.multinomial(masked, 1).flatten()) is None


@pytest.mark.parametrize(
    ("name", "sample"),
    [
        ("most likely", lambda masked: masked.argmax(-1)),
        ("uniform in the support", lambda masked: torch.multinomial((masked > 0).double(), 1).flatten()),
        ("sharpened", lambda masked: torch.multinomial(masked.pow(1.5), 1).flatten()),
        ("of the lower half of the tokens", lambda masked: only(masked, torch.arange(1000) < 500)),
        ("of every other token", lambda masked: only(masked, torch.arange(1000) % 2 == 0)),
        ("of every other block of 64", lambda masked: only(masked, torch.arange(1000) // 64 % 2 == 1)),
        ("out of the support", lambda masked: masked.argmin(-1)),
        ("out of the vocabulary", lambda masked: masked.argmax(-1) + 1000),
        ("negative", lambda masked: masked.argmax(-1) - 1000),
        ("all zeros", lambda masked: torch.zeros(len(masked), dtype=torch.int64)),
    ],
)
def test_a_wrong_sampler_fails(name: str, sample: Sampler) -> None:
    torch.manual_seed(0)
    assert judged(sample) is Verdict.INCORRECT_NUMERICAL, name


def test_the_false_reject_rate_is_what_it_says() -> None:
    generator = torch.Generator().manual_seed(1)
    values = [ks_uniform(torch.rand(50, generator=generator, dtype=torch.float64)) for _ in range(2000)]
    assert 0.03 < sum(value < 0.05 for value in values) / 2000 < 0.07
    assert min(values) > 1e-6


def test_an_unknown_comparator_is_the_datasets_fault() -> None:
    definition = Definition.model_validate(raw_definition()).model_copy(update={"comparator": Comparator(kind="vibes")})
    with pytest.raises(DatasetError, match=r"'vibes' is not known here; known: elementwise, sampling"):
        comparator_for(definition)
