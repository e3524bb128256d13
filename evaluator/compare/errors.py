"""The error model: how far an output is from the truth, and how far a right one may be.

The yardstick is the reference run in float64. How far a right answer may be from it follows from how far the reference
itself is when run as declared, and never from a fixed number:

- rms:     rms(output - exact) / rms(exact)              <= RMS_FACTOR * max(the reference's own, RMS_SHARE * floor)
- element: |output - exact| / (|exact| + rms of its row) <= ELEMENT_FACTOR * max(the reference's own, floor)

The floor is the unit roundoff for 16-bit types, which lets an honest kernel round twice more than the reference does,
and 32 unit roundoffs for float32, which lets it sum in another order. A row is the last axis; its rms keeps elements
that cancel to almost nothing from asking for the impossible, at every scale. NaN is never right; infinities must match
exactly; integers must be equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from kernelmill.evaluator.dtypes import UNIT_ROUNDOFF
from kernelmill.trace_schema.errors import DatasetError

RMS_FACTOR = 3.0
ELEMENT_FACTOR = 6.0
"""Twice RMS_FACTOR, since the largest of millions of rounding errors is about five times their rms, and that 0.4 of
their bound: so both bounds tell the same story. (A matrix product summed in bfloat16 over four parts reaches 4.5.)"""
FLOOR_UNITS = {"float32": 32.0, "float64": 32.0}
RMS_SHARE = 0.4
"""A uniformly distributed rounding error has about 0.4 of its bound as rms."""
UNSTABLE_RMS = 0.1
"""A reference further than this from its own float64 run can't tell right answers from wrong ones."""
CHUNK_ELEMENTS = {"cpu": 1 << 15, "cuda": 1 << 25}
"""On a CPU small enough that a piece's temporaries stay in the second-level cache, many times faster than one large
pass; on a GPU large enough to fill it."""
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


def bound_of(declared: torch.Tensor, exact: torch.Tensor, what: str, roundoff: float | None = None) -> Bound:
    """The bound of one output of a reference. `what` names it in errors; `roundoff`: that of a coarser intermediate.

    Raises DatasetError where the reference's answer is no yardstick.
    """
    if not declared.dtype.is_floating_point:
        return Bound(declared, 0.0, 0.0)
    if torch.isnan(declared).any():
        raise DatasetError(f"{what} gives NaN; mend the reference or its inputs")
    own = measure(declared, exact)
    if own.mismatch:  # float64 overflows where the declared type did not, or the other way: trust the declared run
        exact, own = declared, measure(declared, declared)
    if own.rms > UNSTABLE_RMS:
        raise DatasetError(
            f"{what} is off by {own.rms:.0%} from its own float64 run, so it can't tell right from wrong; "
            "mend the reference or its inputs, or name a comparator that fits (topk_set, lowbit)"
        )
    floor = max(floor_of(declared.dtype), roundoff or 0.0)
    return Bound(exact, RMS_FACTOR * max(own.rms, RMS_SHARE * floor), ELEMENT_FACTOR * max(own.element, floor))


def floor_of(dtype: torch.dtype) -> float:
    """The error that every kernel with this output type may make."""
    kind = str(dtype).removeprefix("torch.")
    return UNIT_ROUNDOFF[kind] * FLOOR_UNITS.get(kind, 1.0)


def measure(output: torch.Tensor, exact: torch.Tensor) -> Errors:
    """Distance of `output` from `exact` (same shape). Non-finite values must stand at the same places."""
    if output.numel() == 0:
        return Errors(0.0, 0.0, 0.0, 0.0, "")
    if not output.dtype.is_floating_point:
        wrong = int((output != exact).sum())
        return Errors(0.0, 0.0, float(wrong > 0), float(wrong > 0), f"{wrong} elements differ" if wrong else "")
    square = total = element = absolute = relative = 0.0
    for mine, right in chunks(output, exact):
        gap = (mine - right).abs()
        if not torch.isfinite(gap).all():
            mismatch = nonfinite(mine, right)
            if mismatch:
                return Errors(torch.inf, torch.inf, torch.inf, torch.inf, mismatch)
            right = right.nan_to_num(posinf=0.0, neginf=0.0)
            gap = gap.nan_to_num(posinf=0.0)  # equal infinities differ by NaN
        size = right.abs()
        element = max(element, float(shares(gap, right).max()))
        absolute = max(absolute, float(gap.max()))
        relative = max(relative, float((gap / (size + TINY)).max()))
        square += float(gap.square().sum())
        total += float(right.square().sum())
    rms = (square / total) ** 0.5 if total > 0 else (torch.inf if square > 0 else 0.0)
    return Errors(rms, element, absolute, relative, "")


def chunks(output: torch.Tensor, exact: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """float64 pieces [rows, row width] of both, so that memory stays bounded."""
    mine, right = rows_of(output), rows_of(exact)
    rows = max(1, CHUNK_ELEMENTS[mine.device.type] // mine.shape[1])
    for start in range(0, mine.shape[0], rows):
        yield mine[start : start + rows].double(), right[start : start + rows].double()


def rows_of(values: torch.Tensor) -> torch.Tensor:
    """As a matrix [rows, row width]; a tensor without a last axis worth the name is one row."""
    width = values.shape[-1] if values.dim() > 1 and values.shape[-1] > 1 else max(1, values.numel())
    return values.reshape(-1, width)


def shares(gap: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Errors as shares of the element's and its row's size, both [rows, row width]."""
    scale = right.abs() + right.square().mean(dim=-1, keepdim=True).sqrt()
    return torch.where(gap > 0, gap / scale, 0.0)


def nonfinite(mine: torch.Tensor, right: torch.Tensor) -> str:
    """What is wrong with the non-finite values of `mine`, or nothing."""
    if torch.isnan(mine).any():
        return f"{int(torch.isnan(mine).sum())} elements are NaN"
    differ = torch.isinf(mine) | torch.isinf(right)
    wrong = int((mine[differ] != right[differ]).sum()) if bool(differ.any()) else 0
    return f"{wrong} elements are infinite where the reference is not, or the other way" if wrong else ""
