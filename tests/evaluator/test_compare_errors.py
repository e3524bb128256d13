"""The error model's edges: what is no yardstick, and how findings add up."""

from __future__ import annotations

import math

import pytest
import torch

from kernelmill.evaluator.compare.base import PASSED, Finding, merged, wrong
from kernelmill.evaluator.compare.elementwise import judged
from kernelmill.evaluator.compare.errors import bound_of
from kernelmill.trace_schema import Verdict
from kernelmill.trace_schema.errors import DatasetError


def test_a_reference_that_differs_from_itself_is_no_yardstick() -> None:
    exact = torch.randn(64, 64).double()
    flipped = exact.float()
    flipped[3] = flipped[4]
    with pytest.raises(DatasetError, match=r"^output 'y' is off by 1\d% from its own float64 run"):
        bound_of(flipped, exact, "output 'y'")


def test_strain_is_the_share_of_what_is_allowed() -> None:
    exact = torch.randn(64, 64).double()
    bound = bound_of(exact.bfloat16(), exact, "output 'y'")
    for scale, verdict in ((0.5, None), (0.99, None), (1.01, Verdict.INCORRECT_NUMERICAL)):
        found = judged("y", exact * (1 + scale * bound.rms), bound)
        assert found.verdict is verdict
        assert found.strain == pytest.approx(scale, rel=1e-6)
    assert judged("y", exact.index_fill(0, torch.tensor(0), math.nan), bound).strain == math.inf


def test_findings_add_up_to_the_first_verdict_and_the_largest_errors() -> None:
    near, far = Finding(None, "", 1.0, 0.1, 0.5), Finding(None, "", 0.5, 0.2, 0.9)
    assert merged([]) == PASSED
    assert merged([near, far]) == Finding(None, "", 1.0, 0.2, 0.9)
    total = merged([near, wrong("first"), far, wrong("second")])
    assert (total.verdict, total.reason, total.strain) == (Verdict.INCORRECT_NUMERICAL, "first", math.inf)
