"""Comparator kind "elementwise": every output within the bounds of `errors`. It has no params."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from kernelmill.evaluator.compare.base import AllOf, Comparator, Expectation, Finding, Truth
from kernelmill.evaluator.compare.errors import Bound, bound_of, measure, shares
from kernelmill.trace_schema import Definition, Verdict

if TYPE_CHECKING:
    from kernelmill.evaluator.case import Case

SAMPLE_ELEMENTS = {"cpu": 1 << 15, "cuda": 1 << 24}


class BoundedOutput(Expectation):
    """One output within its bound."""

    def __init__(self, name: str, bound: Bound) -> None:
        self._name = name
        self._bound = bound

    def judge(self, outputs: Mapping[str, torch.Tensor]) -> Finding:
        return judged(self._name, outputs[self._name], self._bound)


def judged(name: str, output: torch.Tensor, bound: Bound) -> Finding:
    """One output, or part of it, against its bound."""
    found = measure(output, bound.exact)
    reason = found.mismatch
    if found.rms > bound.rms:
        reason = reason or f"normalised rms error {found.rms:.3g} exceeds {bound.rms:.3g}"
    if found.element > bound.element:
        reason = reason or (
            f"an element is off by {found.element:.3g} of its row's scale, more than {bound.element:.3g}"
        )
    strain = torch.inf if found.mismatch else max(share(found.rms, bound.rms), share(found.element, bound.element))
    verdict = Verdict.INCORRECT_NUMERICAL if reason else None
    text = f"output {name!r}: {reason}" if reason else ""
    return Finding(verdict, text, found.max_absolute, found.max_relative, strain)


def share(error: float, allowed: float) -> float:
    if error == 0:
        return 0.0
    return error / allowed if allowed > 0 else torch.inf


class Elementwise(Comparator):
    """Compares every output; other comparators use it for the outputs that are not special to them."""

    def __init__(
        self, definition: Definition, params: Mapping[str, Any] | None = None, roundoff: float | None = None
    ) -> None:
        """`roundoff`: the unit roundoff of a type that kernels may hold intermediate values in."""
        self._definition = definition
        self._roundoff = roundoff
        self._loosest: dict[str, float] = {}

    def prepare(self, case: Case, inputs: Mapping[str, torch.Tensor], truth: Truth) -> Expectation:
        return AllOf([self.expect(output.name, truth) for output in case.outputs])

    def expect(self, name: str, truth: Truth) -> Expectation:
        """What is right for one output."""
        return BoundedOutput(name, self.bound(name, truth.declared[name], truth.best(name)))

    def bound(self, name: str, declared: torch.Tensor, exact: torch.Tensor) -> Bound:
        """The bound of one output, or of the part of it that is given."""
        what = f"output {name!r} of the reference of {self._definition.name}"
        bound = bound_of(declared, exact, what, self._roundoff)
        self._loosest[name] = max(self._loosest.get(name, 0.0), bound.element)
        return bound

    def agree(self, outputs: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor]) -> bool | None:
        """On a sample: each of two right answers is within the bound, so they are within twice of each other."""
        return all(self._close(name, output, others[name]) for name, output in outputs.items())

    def _close(self, name: str, output: torch.Tensor, other: torch.Tensor) -> bool:
        places, allowed = secret_sample(output), 2 * self._loosest.get(name, 0.0)
        mine, right = (values.flatten()[places].reshape(1, -1) for values in (output, other))
        if mine.device.type == "cuda" and mine.dtype.is_floating_point and mine.numel():
            apart = farthest(mine, right)
            if apart is not None:
                return apart <= allowed
        found = measure(mine, right)
        return not found.mismatch and found.element <= allowed


def farthest(mine: torch.Tensor, right: torch.Tensor) -> float | None:
    """The largest error as a share of the element's and the row's size, at one wait; None if some are not finite."""
    wide = torch.float64 if mine.dtype in (torch.float32, torch.float64) else torch.float32
    mine, right = mine.to(wide), right.to(wide)
    gap = (mine - right).abs()
    worst, finite = torch.stack([shares(gap, right).max().double(), torch.isfinite(gap).all().double()]).tolist()
    return worst if finite else None


def secret_sample(values: torch.Tensor) -> torch.Tensor | slice:
    """Which elements to look at: all of a few, else others at every call, so that nobody can get just them right."""
    most = SAMPLE_ELEMENTS[values.device.type]
    if values.numel() <= most:
        return slice(None)
    generator = torch.Generator(values.device).manual_seed(secrets.randbits(63))
    return torch.randint(values.numel(), (most,), generator=generator, device=values.device)
