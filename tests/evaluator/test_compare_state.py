"""State in a pool: the slots of a call are right, and all others are what they were, bit for bit."""

from __future__ import annotations

import pytest
import torch

from kernelmill.trace_schema import Verdict
from kernelmill.trace_schema.errors import DatasetError
from tests.evaluator.compared import Compared, Tensors, definition_of

WRONG = Verdict.INCORRECT_NUMERICAL


class Pool:
    """A pool of ten slots; a call updates slots 7, 2 and 4 and pads with -1. Slot 9 holds NaN that nobody reads."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.state = torch.randn(10, 4, 8)
        self.state[9, 0, 0] = torch.nan
        self.indices = torch.tensor([7, -1, 2, 4], dtype=torch.int32)
        self.exact = self.state.double()
        self.exact[[7, 2, 4]] = self.exact[[7, 2, 4]] * 0.9 + torch.randn(3, 4, 8).double()
        self.declared = self.exact.float()
        self.declared[9] = self.state[9]
        self.inputs: Tensors = {"state": self.state, "state_indices": self.indices}
        outputs = {"output": self.declared[:4, :, 0], "new_state": self.declared}
        shapes = {name: ["slots", "heads", "dim"] for name in ("state", "new_state")}
        self.compared = Compared(definition_of(self.inputs, outputs, shapes=shapes))
        self.outputs = {"output": self.declared[:4, :, 0].contiguous(), "new_state": self.declared}
        exact = {"output": self.exact[:4, :, 0].contiguous(), "new_state": self.exact}
        self.judge = self.compared.expect(self.inputs, self.outputs, exact).judge

    def finding(self, slot: int, place: int, value: float) -> str:
        changed = self.declared.clone()
        changed[slot].view(-1)[place] = value
        return self.judge({**self.outputs, "new_state": changed}).reason


def test_right_slots_and_an_untouched_rest_pass() -> None:
    pool = Pool()
    assert pool.judge(pool.outputs).verdict is None
    other = pool.declared.clone()
    other[2] *= 1 + 2**-22  # another order of summation
    assert pool.judge({**pool.outputs, "new_state": other}).verdict is None


def test_a_slot_that_was_not_updated_or_wrongly_fails() -> None:
    pool = Pool()
    assert pool.judge({**pool.outputs, "new_state": pool.state}).verdict is WRONG
    for slot in (7, 2, 4):
        one = pool.declared.clone()
        one[slot] = pool.state[slot]
        assert pool.judge({**pool.outputs, "new_state": one}).verdict is WRONG
    assert "rms error" in pool.finding(4, 3, 5.0)


def test_the_last_bit_of_another_slot_must_stay_even_that_of_a_nan() -> None:
    pool = Pool()
    near = float(torch.nextafter(pool.state[0, 0, 1], torch.tensor(9.0)))
    assert "1 slots changed" in pool.finding(0, 1, near)
    assert "1 slots changed" in pool.finding(9, 0, 0.0)
    assert "1 slots changed" in pool.finding(9, 0, -torch.nan)


def test_other_outputs_are_compared_too() -> None:
    pool = Pool()
    assert pool.judge({**pool.outputs, "output": pool.outputs["output"] * 1.01}).verdict is WRONG


def test_a_cache_of_pages_counts_its_slots_along_two_axes() -> None:
    cache, slots = torch.zeros(3, 4, 8).bfloat16(), torch.tensor([5, 10])
    after = cache.clone()
    after.view(12, 8)[slots] = torch.randn(2, 8).bfloat16()
    params = {"state": ["k_after"], "indices": "slots", "axes": 2}
    definition = definition_of(
        {"k_cache": cache, "slots": slots},
        {"k_after": after},
        shapes={name: ["pages", "page_size", "dim"] for name in ("k_cache", "k_after")},
        comparator={"kind": "state", "params": params},
    )
    spec = definition.outputs["k_after"].model_copy(update={"inout": "k_cache"})
    compared = Compared(definition.model_copy(update={"outputs": {"k_after": spec}}))
    judge = compared.expect({"k_cache": cache, "slots": slots}, {"k_after": after}).judge
    assert judge({"k_after": after}).verdict is None
    assert judge({"k_after": after.roll(1, 0)}).verdict is WRONG


def test_a_reference_that_touches_other_slots_is_the_datasets_fault() -> None:
    pool = Pool()
    with pytest.raises(DatasetError, match="changes slots of 'new_state' that 'state_indices' does not name"):
        pool.compared.expect(pool.inputs, {**pool.outputs, "new_state": pool.declared + 1})
