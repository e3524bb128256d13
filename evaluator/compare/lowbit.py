"""Comparator kind "lowbit": products of float8 or float4 operands. Params, all optional: matched_ratio, intermediate.

A chain of such products (a mixture of experts) quantises what lies between two of them, which the reference doesn't, so
a right answer differs from it by that type's rounding. `intermediate` names the type; left out, it is the coarsest
input's where more than two inputs are low-bit, that is where there is a chain. The bounds are those of `errors` with
that type's unit roundoff for a floor, and since it is wide, more is asked:

- elements: at least `matched_ratio` of them (0.95, as the public schema's evaluator has it) within the element bound,
  and the others within MISS_LIMIT times their row's scale;
- rows: each within half as much again as the rms bound, which bounds the misses together. An expert may be chosen
  otherwise on a tie, so TIE_SHARE of the rows may be off, never the same row in several input sets. A row in which the
  reference differs from its own float64 run is right if it is like either;
- gain: rounding is as often up as down, so the error hardly points along the answer. Its share in that direction is at
  most a bfloat16 roundoff, plus a part of the other error that shrinks with the number of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from kernelmill.evaluator.compare.base import PASSED, AllOf, Comparator, Expectation, Finding, Truth, wrong
from kernelmill.evaluator.compare.defaults import is_low_bit
from kernelmill.evaluator.compare.elementwise import BoundedOutput, secret_sample, share
from kernelmill.evaluator.compare.errors import (
    UNSTABLE_RMS,
    bound_of,
    chunks,
    measure,
    nonfinite,
    rows_of,
    shares,
)
from kernelmill.evaluator.compare.tally import Tally
from kernelmill.evaluator.dtypes import UNIT_ROUNDOFF
from kernelmill.trace_schema import Definition, TensorSpec, Verdict
from kernelmill.trace_schema.errors import DatasetError

if TYPE_CHECKING:
    from kernelmill.evaluator.case import Case

MATCHED_RATIO = 0.95
MISS_LIMIT = 3.0
TIE_SHARE = 2e-4
ROUNDOFF = {**UNIT_ROUNDOFF, "float4_e2m1": 2.0**-2}


class Settings(NamedTuple):
    """A definition's params."""

    matched_ratio: float
    roundoff: float | None
    """Unit roundoff of what is quantised between two products."""


def roundoff_of(definition: Definition, dtype: str) -> float:
    """The unit roundoff of a type that a param names."""
    if dtype not in ROUNDOFF:
        raise DatasetError(
            f"{definition.name}: comparator param intermediate={dtype!r} is no floating type; "
            f"known: {', '.join(ROUNDOFF)}"
        )
    return ROUNDOFF[dtype]


def coarsest(specs: Iterable[TensorSpec]) -> float:
    """The largest unit roundoff among floating tensors."""
    return max(ROUNDOFF[spec.dtype.value] for spec in specs)


class Limit(NamedTuple):
    """One thing that is measured, and how much of it is allowed."""

    measured: float
    allowed: float
    text: str


class LowbitOutput(Expectation):
    """One low-bit output: bounded elements, rows and gain."""

    def __init__(self, name: str, declared: torch.Tensor, exact: torch.Tensor, what: str, settings: Settings) -> None:
        self.name = name
        self._settings = settings
        self._declared = declared
        off = torch.cat([wavers(mine, right) for mine, right in chunks(declared, exact)])
        self._wavering = torch.nonzero(off).flatten()
        calm = ~off if not bool(off.all()) else off
        steady = bound_of(rows_of(declared)[calm], rows_of(exact)[calm], what, settings.roundoff)
        self.bound = steady._replace(exact=exact)

    def judge(self, outputs: Mapping[str, torch.Tensor]) -> Finding:
        output = outputs[self.name]
        found = measure(output, self.bound.exact)
        if found.mismatch:
            return wrong(f"output {self.name!r}: {found.mismatch}")
        limits = list(self._limits(self.tally(output)))
        over = [limit for limit in limits if limit.measured > limit.allowed]
        reason = f"output {self.name!r}: {over[0].text}" if over else ""
        return Finding(
            Verdict.INCORRECT_NUMERICAL if over else None,
            reason,
            found.max_absolute,
            found.max_relative,
            max((share(limit.measured, limit.allowed) for limit in limits), default=0.0),
        )

    def _limits(self, tally: Tally) -> Iterator[Limit]:
        missed, allowed = tally.unmatched / max(1, tally.elements), 1 - self._settings.matched_ratio
        element, gain = self.bound.element, abs(tally.gain)
        yield Limit(missed, allowed, f"{missed:.2%} of the elements are off by more than {element:.3g} of their scale")
        worst = tally.worst_element
        yield Limit(worst, max(MISS_LIMIT, element), f"an element is off by {worst:.3g} times its row's scale")
        wrong_rows, ties = len(tally.wrong_rows), int(TIE_SHARE * tally.rows)
        yield Limit(wrong_rows, ties, f"{wrong_rows} of {tally.rows} rows are wrong, by up to {tally.worst_row:.3g}")
        if not wrong_rows:
            yield Limit(tally.worst_row, tally.row_allowed, "a row is wrong")
        yield Limit(tally.rms, self.bound.rms, f"normalised rms error {tally.rms:.3g} exceeds {self.bound.rms:.3g}")
        yield Limit(gain, tally.gain_allowed, f"the answer is {tally.gain:+.2%} too large, which no rounding explains")

    def tally(self, output: torch.Tensor) -> Tally:
        total = Tally(self.bound)
        for mine, right in chunks(output, self._nearest(output)):
            finite = torch.isfinite(right)
            total.add(torch.where(finite, mine, 0.0), torch.where(finite, right, 0.0))
        return total

    def _nearest(self, output: torch.Tensor) -> torch.Tensor:
        """The exact answer, with the declared one in the wavering rows where the output is nearer to that."""
        if not len(self._wavering):
            return self.bound.exact
        one, two, mine = (rows_of(t)[self._wavering].double() for t in (self.bound.exact, self._declared, output))
        other = (mine - two).square().sum(-1) < (mine - one).square().sum(-1)
        right = rows_of(self.bound.exact).clone()
        right[self._wavering[other]] = two[other].to(right.dtype)
        return right.reshape(self.bound.exact.shape)


def wavers(declared: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """By row: whether the reference is far from its own float64 run; false for rows that are not finite."""
    return (declared - exact).square().sum(-1) > UNSTABLE_RMS**2 * exact.square().sum(-1)


class Lowbit(Comparator):
    """Compares floating outputs row by row with a low-bit type's rounding, integer ones exactly."""

    def __init__(self, definition: Definition, params: Mapping[str, Any]) -> None:
        ratio = params.get("matched_ratio", MATCHED_RATIO)
        if not isinstance(ratio, int | float) or not 0 < ratio <= 1:
            raise DatasetError(f"{definition.name}: comparator param matched_ratio={ratio!r} is not in (0, 1]")
        self._definition = definition
        self._settings = Settings(float(ratio), chain_roundoff(definition, params))
        self._loosest: dict[str, float] = {}

    def prepare(self, case: Case, inputs: Mapping[str, torch.Tensor], truth: Truth) -> Expectation:
        return AllOf([self._expect(output.name, truth) for output in case.outputs])

    def _expect(self, name: str, truth: Truth) -> Expectation:
        declared, exact = truth.declared[name], truth.best(name)
        what = f"output {name!r} of the reference of {self._definition.name}"
        if not declared.dtype.is_floating_point or declared.numel() == 0:
            return BoundedOutput(name, bound_of(declared, exact, what))
        expected = LowbitOutput(name, declared, exact, what, self._settings)
        self._loosest[name] = max(self._loosest.get(name, 0.0), expected.bound.element)
        return expected

    def agree(self, outputs: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor]) -> bool | None:
        for name, output in outputs.items():
            places = secret_sample(output)
            mine, theirs = (values.flatten()[places].reshape(1, -1).double() for values in (output, others[name]))
            if name not in self._loosest:
                if not torch.equal(output, others[name]):
                    return False
                continue
            if nonfinite(mine, theirs):
                return False
            apart = shares((mine - theirs).abs().nan_to_num(), theirs) > 2 * self._loosest[name]
            if apart.numel() and float(apart.double().mean()) > 2 * (1 - self._settings.matched_ratio):
                return False
        return True

    def conclude(
        self, findings: list[tuple[Expectation, Mapping[str, torch.Tensor]]]
    ) -> tuple[Finding, dict[str, Any]]:
        """A tie falls on another row in another input set; a row that is wrong in several is not computed."""
        for name in self._loosest:
            sets = {id(expected): (expected, outputs) for expected, outputs in findings}
            times = Counter(row for expected, outputs in sets.values() for row in wrong_rows(expected, name, outputs))
            if again := [row for row, count in times.items() if count > 1]:
                return wrong(f"output {name!r}: row {again[0]} is wrong in several input sets"), {}
        return PASSED, {}


def wrong_rows(expected: Expectation, name: str, outputs: Mapping[str, torch.Tensor]) -> list[int]:
    for part in expected.parts if isinstance(expected, AllOf) else []:
        if isinstance(part, LowbitOutput) and part.name == name:
            return part.tally(outputs[name]).wrong_rows
    return []


def chain_roundoff(definition: Definition, params: Mapping[str, Any]) -> float | None:
    """The unit roundoff of what a kernel may quantise between two products; None where there is only one product."""
    if "intermediate" in params:
        return roundoff_of(definition, str(params["intermediate"]))
    operands = [spec for spec in definition.inputs.values() if is_low_bit(spec)]
    return coarsest(operands) if len(operands) > 2 else None
