"""References under float64: the value itself, not one rounding of it."""

from __future__ import annotations

import pytest
import torch

from kernelmill.evaluator.precision import Float64, widen


def casts(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.float32).float().half().bfloat16().to(dtype=torch.float16)


def made(x: torch.Tensor) -> torch.Tensor:
    return x + torch.arange(3, dtype=torch.float32) + torch.zeros(3, dtype=torch.bfloat16) + torch.full((3,), 1 / 3)


def reduced(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1, dtype=torch.float32) + x.sum(dtype=torch.float32)


@pytest.mark.parametrize("function", [casts, made, reduced])
def test_every_narrower_type_becomes_float64(function: object) -> None:
    x = torch.tensor([0.1, 0.2, 0.3], dtype=torch.bfloat16)
    with Float64():
        found = function(widen(x))  # type: ignore[operator]
    assert found.dtype is torch.float64


def test_integers_and_booleans_are_left_alone() -> None:
    with Float64():
        assert torch.arange(3, dtype=torch.int32).dtype is torch.int32
        assert widen(torch.ones(2, dtype=torch.bool)).dtype is torch.bool
        assert widen(0.5) == 0.5


def test_it_ends_with_the_block() -> None:
    with Float64():
        pass
    assert torch.zeros(1, dtype=torch.float32).dtype is torch.float32


def test_looking_at_the_bits_as_another_type_stays_what_it_is() -> None:
    with Float64():
        assert torch.tensor([1.0], dtype=torch.float64).view(torch.int64).dtype is torch.int64
        assert torch.zeros(4, dtype=torch.int8).view(torch.float32).dtype is torch.float32
