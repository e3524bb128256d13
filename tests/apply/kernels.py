"""Small definitions and kernels for tests: plain functions where only dispatch is looked at, C++ where it is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from kernelmill.apply.features import features_of
from kernelmill.apply.grid import Box
from kernelmill.apply.guard.events import Events
from kernelmill.apply.runtime import Candidate, Looks, Runtime
from kernelmill.trace_schema import Definition
from tests import builders

HIDDEN = 8
NEVER = Looks(0.0, 0)
NORM = builders.definition(
    reference="""\
import torch

EPSILON = 1e-5


def run(hidden_states, weight):
    x = hidden_states.to(torch.float32)
    scale = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + EPSILON)
    return (x * scale * weight.to(torch.float32)).to(hidden_states.dtype)
"""
)
INPLACE = builders.definition(
    name="add_rmsnorm_h8",
    inputs={
        "hidden_states": {"shape": ["batch_size", "hidden_size"], "dtype": "float32"},
        "residual": {"shape": ["batch_size", "hidden_size"], "dtype": "float32"},
        "weight": {"shape": ["hidden_size"], "dtype": "float32", "role": "static"},
    },
    outputs={
        "output": {"shape": ["batch_size", "hidden_size"], "dtype": "float32"},
        "residual_out": {"shape": ["batch_size", "hidden_size"], "dtype": "float32", "inout": "residual"},
    },
    reference="""\
import torch


def run(hidden_states, residual, weight):
    added = hidden_states + residual
    scale = torch.rsqrt(added.pow(2).mean(dim=-1, keepdim=True) + 1e-5)
    return added * scale * weight, added
""",
)


def norm(hidden_states: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The caller's own kernel, in both forms' value-returning one."""
    return torch.nn.functional.rms_norm(hidden_states, (HIDDEN,), weight, 1e-5)


def norm_into(hidden_states: torch.Tensor, weight: torch.Tensor, output: torch.Tensor) -> None:
    """A right kernel, destination passing."""
    output.copy_(norm(hidden_states, weight))


def add_norm(hidden_states: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The caller's own: updates the residual in place and returns the norm."""
    residual.add_(hidden_states)
    return norm(residual, weight)


class Counted:
    """A kernel that counts its calls."""

    def __init__(self, kernel: Callable[..., Any]) -> None:
        self.kernel = kernel
        self.calls = 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self.kernel(*args)


def runtime(
    kernel: Callable[..., Any] = norm_into,
    *,
    definition: Definition = NORM,
    boxes: Sequence[Box] = (Box((1,), (16,), 0),),
    looks: Looks = NEVER,
    events: Path | None = None,
    destination_passing: bool = True,
) -> Runtime:
    """One definition with one kernel in force; nothing is looked at unless asked for."""
    made = Runtime("cpu", looks, Events(events))
    candidate = Candidate("fast", "f" * 64, kernel, destination_passing)
    made.serve(definition, features_of(definition), boxes, [candidate])
    return made


def inputs(rows: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(rows, HIDDEN), torch.rand(HIDDEN) + 0.5
