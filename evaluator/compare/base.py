"""What a comparator is: it prepares expectations from the reference's answers and judges outputs against them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kernelmill.trace_schema import Verdict

if TYPE_CHECKING:
    import torch

    from kernelmill.evaluator.case import Case


class Truth(NamedTuple):
    """The reference's answers to one set of inputs."""

    declared: Mapping[str, torch.Tensor]
    """As the reference computes them, in the outputs' dtypes."""
    exact: Mapping[str, torch.Tensor] | None
    """The reference run in float64; None where it does not run so."""
    seconds: float
    """Time of the declared run, by the judge's clock."""


class Finding(NamedTuple):
    """What comparing one call gave. `verdict` None means nothing is wrong."""

    verdict: Verdict | None
    reason: str
    max_absolute_error: float = 0.0
    max_relative_error: float = 0.0


class Expectation(Protocol):
    """What right outputs look like for one set of inputs. Made once, used for every solution."""

    def judge(self, outputs: Mapping[str, torch.Tensor]) -> Finding: ...


class Comparator(Protocol):
    """One way of comparing; `params` are the definition's."""

    def prepare(self, case: Case, inputs: Mapping[str, torch.Tensor], truth: Truth) -> Expectation: ...

    def agree(self, outputs: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor]) -> bool | None:
        """Whether two solutions' outputs for the same inputs tell the same story; None where that can't be said."""

    def conclude(
        self, findings: list[tuple[Expectation, Mapping[str, torch.Tensor]]]
    ) -> tuple[Finding, dict[str, Any]]:
        """A last look over all verified calls together, with measures for `correctness.extra`."""


PASSED = Finding(None, "")
