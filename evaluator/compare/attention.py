"""Comparator kind "attention": an output and the log-sum-exp of its logits. Params: output, lse[, intermediate].

The output is bounded as `errors` says, relative to its row, which is one head's. The log-sum-exp is a logarithm, so an
error of the sum is an absolute error of it, whatever its size:

- |lse - exact| <= LSE_FACTOR * max(the reference's own error, LSE_UNITS unit roundoffs * (1 + |exact|), exp)

The second is what float32 leaves of logits as large as |exact|; the third, EXP_SHARE of the weights' unit roundoff,
what a sum of weights leaves that were rounded to that type before they were added. Measured in base 2, with bfloat16
weights: 3e-6 for torch's fused kernels on an H200, up to 2e-4 on a CPU, 1.9e-3 for FlashInfer's decoding with tensor
cores, which adds rounded weights, of 3.9e-3 allowed. Missing a share s of the keys costs about 1.4 s. A row without any
key is exactly what the reference makes of it, as a rule 0 and -inf.

`intermediate` is the type in which a kernel may hold the weights between the two products; left out, it is the output's
type, or the inputs' where all that the call multiplies is in a low-bit type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from kernelmill.evaluator.compare.base import AllOf, Comparator, Expectation, Finding, Truth, wrong
from kernelmill.evaluator.compare.defaults import is_low_bit, tensor_names
from kernelmill.evaluator.compare.elementwise import Elementwise, secret_sample
from kernelmill.evaluator.compare.errors import TINY, nonfinite
from kernelmill.evaluator.compare.lowbit import coarsest, roundoff_of
from kernelmill.evaluator.dtypes import UNIT_ROUNDOFF
from kernelmill.trace_schema import Definition, Verdict
from kernelmill.trace_schema.errors import DatasetError

if TYPE_CHECKING:
    from kernelmill.evaluator.case import Case

LSE_FACTOR = 4.0
LSE_UNITS = 8.0
EXP_SHARE = 1 / 4


class BoundedLse(Expectation):
    """A log-sum-exp within `allowed`, element by element."""

    def __init__(self, name: str, exact: torch.Tensor, allowed: torch.Tensor) -> None:
        self._name = name
        self._exact = exact
        self._allowed = allowed

    def judge(self, outputs: Mapping[str, torch.Tensor]) -> Finding:
        mine = outputs[self._name].double()
        if mismatch := nonfinite(mine, self._exact):
            return wrong(f"output {self._name!r}: {mismatch}")
        gap = finite_gap(mine, self._exact)
        strain, absolute = largest(gap / self._allowed), largest(gap)
        relative = largest(gap / (self._exact.abs() + TINY))
        reason = f"output {self._name!r}: off by up to {absolute:.3g}, {strain:.3g} times what is allowed"
        if strain <= 1:
            return Finding(None, "", absolute, relative, strain)
        return Finding(Verdict.INCORRECT_NUMERICAL, reason, absolute, relative, strain)


def finite_gap(mine: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Absolute errors; 0 where both are infinite."""
    return torch.where(torch.isinf(exact), 0.0, (mine - exact).abs())


def largest(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0


class Attention(Comparator):
    """Compares the log-sum-exp by its absolute error and every other output elementwise."""

    def __init__(self, definition: Definition, params: Mapping[str, Any]) -> None:
        names = tensor_names(definition, params, "output", "lse")
        if names.keys() != {"output", "lse"}:
            raise DatasetError(
                f"{definition.name}: comparator attention needs params output and lse, got {dict(params)}"
            )
        coarser = weights_roundoff(definition, params)
        self._weights = coarser or roundoff_of(definition, definition.outputs[names["output"]].dtype.value)
        self._others = Elementwise(definition, roundoff=coarser)
        self._lse = names["lse"]
        self._loosest = 0.0

    def prepare(self, case: Case, inputs: Mapping[str, torch.Tensor], truth: Truth) -> Expectation:
        return AllOf(
            [
                self._expect_lse(truth) if output.name == self._lse else self._others.expect(output.name, truth)
                for output in case.outputs
            ]
        )

    def _expect_lse(self, truth: Truth) -> Expectation:
        declared, exact = truth.declared[self._lse], truth.best(self._lse).double()
        if torch.isnan(declared).any():
            raise DatasetError(f"output {self._lse!r} of the reference gives NaN; mend it or its inputs")
        unit = UNIT_ROUNDOFF[str(declared.dtype).removeprefix("torch.")]
        size = torch.where(torch.isinf(exact), 0.0, exact.abs())
        own = largest(finite_gap(declared.double(), exact))
        allowed = LSE_FACTOR * (LSE_UNITS * unit * (1 + size)).clamp(min=max(own, EXP_SHARE * self._weights))
        self._loosest = max(self._loosest, largest(allowed))
        return BoundedLse(self._lse, exact, allowed)

    def agree(self, outputs: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor]) -> bool | None:
        places = secret_sample(outputs[self._lse])
        mine, theirs = (values[self._lse].flatten()[places].double() for values in (outputs, others))
        if nonfinite(mine, theirs) or largest(finite_gap(mine, theirs)) > 2 * self._loosest:
            return False
        rest = {name: output for name, output in outputs.items() if name != self._lse}
        return self._others.agree(rest, others)


def weights_roundoff(definition: Definition, params: Mapping[str, Any]) -> float | None:
    """The unit roundoff of the type that attention weights may be held in, where it is coarser than the output's."""
    if "intermediate" in params:
        return roundoff_of(definition, str(params["intermediate"]))
    multiplied = [spec for spec in definition.inputs.values() if spec.dtype.is_float and len(spec.shape or []) > 2]
    return coarsest(multiplied) if multiplied and all(map(is_low_bit, multiplied)) else None
