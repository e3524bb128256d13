"""Evaluations: which status carries what, and how verdicts map to the public schema."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from kernelmill.trace_schema import Evaluation, Status, Verdict
from tests import builders

CORRECTNESS, PERFORMANCE = {"max_absolute_error": 1.0}, {"latency_ms": 1.0}


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("correctness", [None, {}, CORRECTNESS])
@pytest.mark.parametrize("performance", [None, {}, PERFORMANCE])
def test_the_presence_rule(status: Status, correctness: Any, performance: Any) -> None:
    raw = {"status": status.value, "environment": {"hardware": "cpu"}, "timestamp": "t"}
    raw |= {"correctness": correctness, "performance": performance}
    wanted = {Status.PASSED: (True, True), Status.INCORRECT_NUMERICAL: (True, False)}.get(status, (False, False))
    if (correctness is not None, performance is not None) == wanted:
        assert builders.plain(Evaluation.model_validate(raw)) == raw
    else:
        with pytest.raises(ValidationError, match=rf"status {status} (needs|forbids) (correctness|performance)"):
            Evaluation.model_validate(raw)


def test_verdicts_in_public_terms() -> None:
    assert {verdict: verdict.status for verdict in Verdict if verdict is not Verdict.HARNESS_ERROR} == {
        **{Verdict(status.value): status for status in Status},
        Verdict.CHEAT_DETECTED: Status.RUNTIME_ERROR,
        Verdict.SUSPECT: Status.RUNTIME_ERROR,
        Verdict.RULE_VIOLATION: Status.RUNTIME_ERROR,
        Verdict.RESOURCE_EXCEEDED: Status.RUNTIME_ERROR,
        Verdict.INVALID_SUBMISSION: Status.COMPILE_ERROR,
    }


def test_a_harness_error_is_never_stored() -> None:
    with pytest.raises(ValueError, match="never written to a trace"):
        _ = Verdict.HARNESS_ERROR.status
    with pytest.raises(ValidationError, match="never written to a trace"):
        builders.trace(evaluation={"status": "RUNTIME_ERROR", "verdict": "HARNESS_ERROR"})


def test_a_verdict_must_fit_its_status() -> None:
    with pytest.raises(ValidationError, match="verdict CHEAT_DETECTED needs status RUNTIME_ERROR, not PASSED"):
        builders.trace(evaluation={"verdict": "CHEAT_DETECTED"})


@pytest.mark.parametrize("interval", [[2, 1], [1], [1, 2, 3], [-1, 1], ["NaN", 1], 1])
def test_what_is_no_interval(interval: Any) -> None:
    with pytest.raises(ValidationError):
        builders.trace(evaluation={"statistics": {"ratio_ci95": interval}})


def test_every_promised_field_of_a_trace_line() -> None:
    evaluation = {
        "subject": dict.fromkeys(
            ["solution_hash", "definition_hash", "workload_hash", "baseline_hash", "judge_version", "session"], "x"
        ),
        "verdict": "PASSED",
        "reason": "because",
        "evidence": {
            "clock": "judge",
            "roofline_ms": 0.1,
            "floor_ms": 0.2,
            "verified_calls": 3,
            "worker_clock_ms": 0.9,
        },
    }
    raw = builders.raw_trace(evaluation=evaluation)
    raw["evaluation"]["environment"] |= {"clocks": {"sm_mhz": 1980}, "sandbox": "bwrap"}
    trace = type(builders.trace()).model_validate(raw)
    assert builders.plain(trace) == raw
    assert _unknown(trace) == {}


def _unknown(record: Any) -> dict[str, Any]:
    nested = [value for _, value in record if hasattr(value, "model_extra")]
    return {**(record.model_extra or {}), **{key: item for each in nested for key, item in _unknown(each).items()}}
