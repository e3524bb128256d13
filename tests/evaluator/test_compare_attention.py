"""Attention: an output relative to its head's row, and a log-sum-exp whose error is absolute."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from kernelmill.trace_schema import Verdict
from kernelmill.trace_schema.errors import DatasetError
from tests.evaluator.compared import Compared, Tensors, definition_of

WRONG = Verdict.INCORRECT_NUMERICAL
LOG2E = 1.4426950408889634


class Decode:
    """Eight heads of 64 over `keys` keys, in float64, with bfloat16 inputs and output."""

    def __init__(self, keys: int = 2000, spread: float = 2.0) -> None:
        torch.manual_seed(keys)
        self.q = (torch.randn(8, 64) * spread).bfloat16().double()
        self.k, self.v = (torch.randn(keys, 64).bfloat16().double() for _ in "kv")
        inputs = {name: getattr(self, name).bfloat16() for name in "qkv"}
        self.exact = self.answer()
        shapes = {"output": ["heads", "dim"], "lse": ["heads"]}
        self.compared = Compared(definition_of(inputs, self.declared(), shapes=shapes))
        self.judge = self.compared.expect({}, self.declared(), self.exact).judge

    def answer(self, keep: slice = slice(None), rounded: bool = False) -> dict[str, torch.Tensor]:
        logits = self.q @ self.k[keep].T / 8
        weights = torch.exp(logits - logits.amax(-1, keepdim=True))
        held = weights.bfloat16().double() if rounded else weights
        return {"output": held @ self.v[keep] / weights.sum(-1, keepdim=True), "lse": logits.logsumexp(-1) * LOG2E}

    def declared(self) -> dict[str, torch.Tensor]:
        return stored(self.exact)


def stored(answer: Tensors) -> dict[str, torch.Tensor]:
    return {"output": answer["output"].bfloat16(), "lse": answer["lse"].float()}


@pytest.mark.parametrize("keys", [1, 20, 2000, 50_000])
def test_weights_in_bfloat16_pass(keys: int) -> None:
    decode = Decode(keys)
    assert decode.judge(stored(decode.answer(rounded=True))).verdict is None


@pytest.mark.parametrize("keys", [20, 2000, 50_000])
def test_a_twentieth_of_the_keys_missing_fails_by_either_output_alone(keys: int) -> None:
    decode = Decode(keys)
    fewer = stored(decode.answer(slice(keys // 20, None)))
    assert decode.judge({**decode.declared(), "output": fewer["output"]}).verdict is WRONG
    finding = decode.judge({**decode.declared(), "lse": fewer["lse"]})
    assert finding.verdict is WRONG
    assert finding.reason.startswith("output 'lse': off by")


LIES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "natural logarithm": lambda lse: lse / LOG2E,
    "scaled by 0.1 %": lambda lse: lse * 1.001,
    "shifted by half a hundredth": lambda lse: lse + 0.005,
    "heads swapped": lambda lse: lse.roll(1, 0),
    "zeros": torch.zeros_like,
    "NaN": lambda lse: lse * torch.nan,
    "infinite": lambda lse: lse - torch.inf,
}


@pytest.mark.parametrize("name", LIES)
def test_a_wrong_log_sum_exp_fails(name: str) -> None:
    decode = Decode()
    assert decode.judge({**decode.declared(), "lse": LIES[name](decode.declared()["lse"])}).verdict is WRONG


def test_float32_noise_and_a_fast_exp_pass_whatever_the_size_of_the_log_sum_exp() -> None:
    for spread in (0.001, 2.0, 100.0):
        decode = Decode(spread=spread)
        exact = decode.exact["lse"]
        for noisy in (exact * (1 + 2**-22), exact + 2**-13):
            assert decode.judge({**decode.declared(), "lse": noisy.float()}).verdict is None, spread


def test_a_row_that_sees_nothing_is_zero_and_minus_infinity() -> None:
    decode = Decode()
    empty = {name: tensor.clone() for name, tensor in decode.exact.items()}
    empty["output"][3], empty["lse"][3] = 0.0, -torch.inf
    judge = decode.compared.expect({}, stored(empty), empty).judge
    assert judge(stored(empty)).verdict is None
    for name, value in (("output", 1e-30), ("lse", -1e30), ("lse", torch.inf), ("lse", torch.nan)):
        other = stored(empty)
        other[name][3] = value
        assert judge(other).verdict is WRONG, (name, value)


def test_weights_in_float8_pass_only_where_all_inputs_are() -> None:
    q, k, v = (torch.randn(4, 512, 64).to(torch.float8_e4m3fn) for _ in "qkv")
    logits = (q[:, :8].double() @ k.double().transpose(1, 2) / 8).softmax(-1)
    scale = 256 / logits.amax(-1, keepdim=True)
    exact = {"output": logits @ v.double(), "lse": torch.zeros(4, 8).double()}
    coarse = ((logits * scale).to(torch.float8_e4m3fn).double() / scale) @ v.double()
    shapes = {"output": ["a", "b", "c"], "lse": ["a", "b"]}
    for dtype, verdict in ((torch.float8_e4m3fn, None), (torch.bfloat16, WRONG)):
        compared = Compared(definition_of({"q": q, "k": k, "v": v.to(dtype)}, stored(exact), shapes=shapes))
        judge = compared.expect({}, stored(exact), exact).judge
        assert judge(stored({**exact, "output": coarse})).verdict is verdict


def test_agreement_looks_at_both_outputs() -> None:
    decode = Decode()
    mine, theirs = stored(decode.answer(rounded=True)), decode.declared()
    agree = decode.compared.comparator.agree
    assert agree(mine, theirs) is True
    assert agree({**mine, "lse": mine["lse"] + 0.01}, theirs) is False
    assert agree({**mine, "output": mine["output"].roll(1, 0)}, theirs) is False


def test_params_must_name_both_outputs() -> None:
    comparator = {"kind": "attention", "params": {"output": "output"}}
    with pytest.raises(DatasetError, match="needs params output and lse"):
        Compared(definition_of({}, Decode().declared(), comparator=comparator))
