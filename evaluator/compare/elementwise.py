"""Elementwise comparison under an error model.

The yardstick is the reference run in float64. How far a right answer may be from it follows from how far the reference
itself is when run as declared, and never from a fixed number:

- rms:     rms(output - exact) / rms(exact)              <= RMS_FACTOR * max(the reference's own, FLOOR[dtype])
- element: |output - exact| / (|exact| + rms of its row) <= ELEMENT_FACTOR * max(the reference's own, FLOOR[dtype])

FLOOR is the unit roundoff for 16-bit types, which lets an honest kernel round once more than the reference does, and
32 unit roundoffs for float32, which lets it sum in another order. The row's rms keeps elements that cancel to almost
nothing from asking for the impossible, at every scale. NaN is never right; infinities must match exactly; integers must
be equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from kernelmill.evaluator.compare.base import PASSED, Expectation, Finding, Truth
from kernelmill.evaluator.dtypes import UNIT_ROUNDOFF
from kernelmill.trace_schema import Definition, Verdict
from kernelmill.trace_schema.errors import DatasetError

if TYPE_CHECKING:
    from kernelmill.evaluator.case import Case

RMS_FACTOR = 3.0
ELEMENT_FACTOR = 4.0
FLOOR_UNITS = {"float32": 32.0, "float64": 32.0}
RMS_FLOOR_SHARE = 0.4
"""A uniformly distributed rounding error has about 0.4 of its bound as rms."""
CHUNK_ELEMENTS = 1 << 22
SAMPLE_ELEMENTS = 1 << 16
TINY = 1e-8
"""Added to |reference| in the reported relative error, as the public schema's evaluator does."""


class Bound(NamedTuple):
    """One output's yardstick."""

    exact: torch.Tensor
    rms: float
    """Allowed rms(output - exact) / rms(exact)."""
    element: float
    """Allowed |output - exact| / (|exact| + rms of its row)."""


class Errors(NamedTuple):
    """How far one output is from another."""

    rms: float
    element: float
    max_absolute: float
    max_relative: float
    mismatch: str
    """A difference that no tolerance covers, or empty."""


class ElementwiseExpectation:
    """The bounds of every output for one set of inputs."""

    def __init__(self, bounds: Mapping[str, Bound]) -> None:
        self._bounds = bounds

    def judge(self, outputs: Mapping[str, torch.Tensor]) -> Finding:
        worst = PASSED
        for name, bound in self._bounds.items():
            found = measure(outputs[name], bound.exact)
            worst = Finding(
                worst.verdict,
                worst.reason,
                max(worst.max_absolute_error, found.max_absolute),
                max(worst.max_relative_error, found.max_relative),
            )
            reason = found.mismatch or _over(found, bound)
            if reason and worst.verdict is None:
                worst = worst._replace(verdict=Verdict.INCORRECT_NUMERICAL, reason=f"output {name!r}: {reason}")
        return worst


def _over(found: Errors, bound: Bound) -> str:
    if found.rms > bound.rms:
        return f"normalised rms error {found.rms:.3g} exceeds {bound.rms:.3g}"
    if found.element > bound.element:
        return f"an element is off by {found.element:.3g} of its row's scale, more than {bound.element:.3g}"
    return ""


class Elementwise:
    """Comparator kind "elementwise"."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._loosest: dict[str, float] = {}

    def prepare(self, case: Case, inputs: Mapping[str, torch.Tensor], truth: Truth) -> Expectation:
        bounds = {}
        for output in case.outputs:
            declared = truth.declared[output.name]
            exact = truth.exact[output.name] if truth.exact is not None else declared
            bounds[output.name] = self._bound(output.name, declared, exact)
            self._loosest[output.name] = max(self._loosest.get(output.name, 0.0), bounds[output.name].element)
        return ElementwiseExpectation(bounds)

    def _bound(self, name: str, declared: torch.Tensor, exact: torch.Tensor) -> Bound:
        if not declared.dtype.is_floating_point:
            return Bound(declared, 0.0, 0.0)
        if torch.isnan(declared).any():
            raise DatasetError(
                f"the reference of {self._definition.name} gives NaN in output {name!r}; mend it or its inputs"
            )
        own = measure(declared, exact)
        if own.mismatch:  # float64 overflows where the declared type did not, or the other way: trust the declared run
            exact, own = declared, measure(declared, declared)
        kind = str(declared.dtype).removeprefix("torch.")
        floor = UNIT_ROUNDOFF[kind] * FLOOR_UNITS.get(kind, 1.0)
        return Bound(
            exact, RMS_FACTOR * max(own.rms, RMS_FLOOR_SHARE * floor), ELEMENT_FACTOR * max(own.element, floor)
        )

    def agree(self, outputs: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor]) -> bool | None:
        """On a sample: each of two right answers is within the bound, so they are within twice of each other."""
        for name, output in outputs.items():
            step = max(1, output.numel() // SAMPLE_ELEMENTS)
            one, two = output.flatten()[::step], others[name].flatten()[::step]
            found = measure(one.reshape(1, -1), two.reshape(1, -1))
            if found.mismatch or found.element > 2 * self._loosest.get(name, 0.0):
                return False
        return True

    def conclude(
        self, findings: list[tuple[Expectation, Mapping[str, torch.Tensor]]]
    ) -> tuple[Finding, dict[str, Any]]:
        return PASSED, {}


def measure(output: torch.Tensor, exact: torch.Tensor) -> Errors:
    """Distance of `output` from `exact` (same shape). Non-finite values must stand at the same places."""
    if output.numel() == 0:
        return Errors(0.0, 0.0, 0.0, 0.0, "")
    if not output.dtype.is_floating_point:
        wrong = int((output != exact).sum())
        return Errors(0.0, 0.0, float(wrong > 0), float(wrong > 0), f"{wrong} elements differ" if wrong else "")
    square = total = element = absolute = relative = 0.0
    for mine, right in _chunks(output, exact):
        mismatch = _nonfinite(mine, right)
        if mismatch:
            return Errors(torch.inf, torch.inf, torch.inf, torch.inf, mismatch)
        finite = torch.isfinite(right)
        right, mine = torch.where(finite, right, 0.0), torch.where(finite, mine, 0.0)
        gap = (mine - right).abs()
        size = right.abs()
        scale = size + _row_rms(right)
        element = max(element, float(torch.where(gap > 0, gap / scale, 0.0).max()))
        absolute = max(absolute, float(gap.max()))
        relative = max(relative, float((gap / (size + TINY)).max()))
        square += float(gap.square().sum())
        total += float(right.square().sum())
    rms = (square / total) ** 0.5 if total > 0 else (torch.inf if square > 0 else 0.0)
    return Errors(rms, element, absolute, relative, "")


def _chunks(output: torch.Tensor, exact: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """float64 pieces of whole rows, so that memory stays bounded."""
    width = output.shape[-1] if output.dim() > 1 and output.shape[-1] > 1 else output.numel()
    rows = max(1, CHUNK_ELEMENTS // width)
    mine, right = output.reshape(-1, width), exact.reshape(-1, width)
    for start in range(0, mine.shape[0], rows):
        yield mine[start : start + rows].double(), right[start : start + rows].double()


def _row_rms(values: torch.Tensor) -> torch.Tensor:
    return values.square().mean(dim=-1, keepdim=True).sqrt()


def _nonfinite(mine: torch.Tensor, right: torch.Tensor) -> str:
    if torch.isnan(mine).any():
        return f"{int(torch.isnan(mine).sum())} elements are NaN"
    differ = torch.isinf(mine) | torch.isinf(right)
    wrong = int((mine[differ] != right[differ]).sum()) if bool(differ.any()) else 0
    return f"{wrong} elements are infinite where the reference is not, or the other way" if wrong else ""
