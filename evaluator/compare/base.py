"""What a comparator is: it prepares expectations from the reference's answers and judges outputs against them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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

    def best(self, name: str) -> torch.Tensor:
        """The most exact answer there is for one output."""
        return self.exact[name] if self.exact is not None else self.declared[name]


class Finding(NamedTuple):
    """What comparing one call gave. `verdict` None means nothing is wrong."""

    verdict: Verdict | None
    reason: str
    max_absolute_error: float = 0.0
    max_relative_error: float = 0.0
    strain: float = 0.0
    """The largest error as a share of what is allowed; infinite for what no tolerance covers."""


PASSED = Finding(None, "")


def wrong(reason: str, strain: float = float("inf")) -> Finding:
    """A finding that no measured error describes."""
    return Finding(Verdict.INCORRECT_NUMERICAL, reason, float("inf"), float("inf"), strain)


def merged(findings: Iterable[Finding]) -> Finding:
    """Several findings as one: the first verdict, the largest of each number."""
    total = PASSED
    for found in findings:
        first = total if total.verdict is not None else found
        largest = (max(pair) for pair in zip(total[2:], found[2:], strict=True))
        total = Finding(first.verdict, first.reason, *largest)
    return total


class Expectation(Protocol):
    """What right outputs look like for one set of inputs. Made once, used for every solution."""

    def judge(self, outputs: Mapping[str, torch.Tensor]) -> Finding: ...


class AllOf(Expectation):
    """Several expectations, each of its own outputs, that must all be met."""

    def __init__(self, parts: Sequence[Expectation]) -> None:
        self.parts = parts

    def judge(self, outputs: Mapping[str, torch.Tensor]) -> Finding:
        return merged(part.judge(outputs) for part in self.parts)


class Comparator(Protocol):
    """One way of comparing; made from a definition and the comparator's params."""

    needs_reference: bool = True
    """False where what is right follows from the inputs alone: then `prepare` does without a truth."""

    def prepare(self, case: Case, inputs: Mapping[str, torch.Tensor], truth: Truth) -> Expectation: ...

    def agree(self, outputs: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor]) -> bool | None:
        """Whether two solutions' outputs for the same inputs tell the same story; None where that can't be said."""

    def conclude(
        self, findings: list[tuple[Expectation, Mapping[str, torch.Tensor]]]
    ) -> tuple[Finding, dict[str, Any]]:
        """A last look over all verified calls together, with measures for `correctness.extra`."""
        return PASSED, {}
