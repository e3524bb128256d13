"""Low-bit products: a wide tolerance for what must be quantised, and no room for what need not be wrong."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kernelmill.evaluator.compare.base import Expectation
from kernelmill.trace_schema import Verdict
from kernelmill.trace_schema.errors import DatasetError
from tests.evaluator.compared import Compared, definition_of

FP8 = torch.float8_e4m3fn
WRONG = Verdict.INCORRECT_NUMERICAL


def fp8(values: torch.Tensor) -> torch.Tensor:
    return values.to(FP8).to(values.dtype)


def requantised(values: torch.Tensor, dtype: torch.dtype = FP8) -> torch.Tensor:
    """Rounded to 8 bits with a scale for each row, as a kernel does between two products."""
    scale = values.abs().amax(-1, keepdim=True) / 240
    return (values / scale).to(dtype).to(values.dtype) * scale


class Experts:
    """One expert's two products over float8 operands: [tokens, width] -> [tokens, 2 width] -> [tokens, width]."""

    def __init__(self, tokens: int = 64, width: int = 256, **comparator: Any) -> None:
        torch.manual_seed(tokens)
        shapes = (tokens, width), (width, 2 * width), (width, 2 * width), (2 * width, width)
        self.x, self.up, self.gate, self.down = (fp8(torch.randn(*shape, dtype=torch.float64)) for shape in shapes)
        inputs = {name: tensor.to(FP8) for name, tensor in vars(self).items()}
        self.exact = self.compute()
        over = {"comparator": {"kind": "lowbit", "params": comparator}} if comparator else {}
        self.compared = Compared(definition_of(inputs, {"output": self.exact.bfloat16()}, **over))

    def compute(self, between: Any = lambda values: values, operands: Any = lambda values: values) -> torch.Tensor:
        x, up, gate, down = map(operands, (self.x, self.up, self.gate, self.down))
        root = x.shape[-1] ** 0.5
        inner = torch.nn.functional.silu(x @ gate / root) * (x @ up / root)
        result: torch.Tensor = between(inner) @ down
        return result

    def expect(self, declared: torch.Tensor | None = None) -> Expectation:
        own = self.exact.bfloat16() if declared is None else declared
        return self.compared.expect({}, {"output": own}, {"output": self.exact})

    def verdict(self, output: torch.Tensor) -> Verdict | None:
        return self.expect().judge({"output": output.bfloat16()}).verdict


@pytest.mark.parametrize("tokens", [1, 7, 64])
def test_a_kernel_that_quantises_between_two_products_passes(tokens: int) -> None:
    experts = Experts(tokens)
    assert experts.verdict(experts.compute(between=requantised)) is None
    assert experts.verdict(experts.compute(between=lambda values: values.bfloat16().double())) is None


@pytest.mark.parametrize("tokens", [1, 7, 64])
def test_what_no_quantisation_explains_fails(tokens: int) -> None:
    experts = Experts(tokens)
    exact, honest = experts.exact, experts.compute(between=requantised)
    some = torch.rand_like(exact) < 0.04
    lies = {
        "zeros": torch.zeros_like(exact),
        "constant": torch.full_like(exact, float(exact.mean())),
        "scaled by 1 %": exact * 1.01,
        "negated": -honest,
        "one element huge": honest.index_put((torch.tensor(0), torch.tensor(5)), exact.abs().max() * 4),
        "4 % of the elements zero": torch.where(some, 0.0, honest),
        "4 % of the elements wild": torch.where(some, 50 * exact.abs().max(), honest),
        "a NaN": honest.index_put((torch.tensor(0), torch.tensor(5)), torch.tensor(torch.nan).double()),
        "operands one precision lower": experts.compute(operands=lambda v: v.to(torch.float8_e5m2).double()),
    }
    if tokens > 1:
        lies["last row skipped"] = torch.cat([honest[:-1], torch.zeros_like(honest[:1])])
        lies["rows shifted"] = honest.roll(1, 0)
    if tokens >= 64:
        lies["honest, scaled by 2 %"] = honest * 1.02
    for name, lie in lies.items():
        assert experts.verdict(lie) is WRONG, name


def test_a_single_product_may_round_once_and_no_more() -> None:
    a, b = (fp8(torch.randn(64, 512, dtype=torch.float64)) for _ in range(2))
    exact = a @ b.T
    compared = Compared(definition_of({"a": a.to(FP8), "b": b.to(FP8)}, {"c": exact.bfloat16()}))
    judge = compared.expect({}, {"c": exact.bfloat16()}, {"c": exact}).judge
    assert judge({"c": (exact * (1 + 2**-10)).bfloat16()}).verdict is None
    assert judge({"c": requantised(exact).bfloat16()}).verdict is WRONG


def test_the_intermediate_type_can_be_named() -> None:
    experts = Experts(intermediate="bfloat16")
    assert experts.verdict(experts.compute(between=lambda values: values.bfloat16().double())) is None
    assert experts.verdict(experts.compute(between=requantised)) is WRONG


def test_one_row_in_thousands_may_be_decided_otherwise_but_not_the_same_one_each_time() -> None:
    experts = Experts(6000, width=64)
    honest = experts.compute(between=requantised).bfloat16()
    tie, other = honest.clone(), honest.clone()
    tie[17], other[2222] = honest[18], honest[2223]
    first, second = experts.expect(), experts.expect()
    assert first.judge({"output": tie}).verdict is None
    assert first.judge({"output": honest.roll(1, 0)}).verdict is WRONG
    conclude = experts.compared.comparator.conclude
    assert (
        conclude([(first, {"output": tie}), (first, {"output": tie}), (second, {"output": other})])[0].verdict is None
    )
    finding = conclude([(first, {"output": tie}), (second, {"output": tie})])[0]
    assert finding.verdict is WRONG
    assert "row 17" in finding.reason


def test_a_row_where_the_reference_wavers_may_be_like_either_of_its_answers() -> None:
    experts = Experts(64)
    declared = experts.exact.bfloat16()
    declared[5] = declared[6] + declared[7]
    expected = experts.expect(declared)
    assert expected.judge({"output": declared}).verdict is None
    assert expected.judge({"output": experts.exact.bfloat16()}).verdict is None
    neither = declared.clone()
    neither[5] = declared[8]
    assert expected.judge({"output": neither}).verdict is WRONG


def test_agreement_is_seen_without_the_reference() -> None:
    experts = Experts(64)
    experts.expect()
    honest, exact = experts.compute(between=requantised).bfloat16(), experts.exact.bfloat16()
    agree = experts.compared.comparator.agree
    assert agree({"output": honest}, {"output": exact}) is True
    assert agree({"output": honest.roll(1, 0)}, {"output": exact}) is False
    assert agree({"output": honest / 0}, {"output": exact}) is False


@pytest.mark.parametrize(
    ("params", "said"),
    [({"matched_ratio": 1.5}, r"matched_ratio=1\.5"), ({"intermediate": "int8"}, "intermediate='int8' is no floating")],
)
def test_params_that_mean_nothing_are_the_datasets_fault(params: dict[str, Any], said: str) -> None:
    with pytest.raises(DatasetError, match=said):
        Experts(**params)
