"""Traces: a workload's own line, or a judged one."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from kernelmill.trace_schema import Verdict
from tests import builders


def test_a_workload_line() -> None:
    trace = builders.trace(evaluation=None)
    assert trace.is_workload
    assert not trace.passed
    assert trace.effective_verdict is None
    assert builders.plain(trace)["evaluation"] is None


@pytest.mark.parametrize(
    ("status", "verdict", "effective"),
    [
        ("PASSED", None, Verdict.PASSED),
        ("RUNTIME_ERROR", "CHEAT_DETECTED", Verdict.CHEAT_DETECTED),
        ("TIMEOUT", None, Verdict.TIMEOUT),
    ],
)
def test_a_judged_line(status: str, verdict: str | None, effective: Verdict) -> None:
    trace = builders.trace(evaluation={"status": status, "verdict": verdict})
    assert not trace.is_workload
    assert trace.passed is (status == "PASSED")
    assert trace.effective_verdict is effective


def test_a_pass_without_times() -> None:
    assert builders.trace(evaluation={"performance": {}}).passed


def test_the_workload_is_required() -> None:
    raw = builders.raw_trace()
    del raw["workload"]
    with pytest.raises(ValidationError, match="workload"):
        type(builders.trace()).model_validate(raw)
