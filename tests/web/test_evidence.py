"""What a solution's page says of its traces: what holds, what does not, and what nobody can know."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kernelmill.trace_schema import Trace
from kernelmill.web.evidence import checks, ordered, sittings
from tests.builders import raw_evaluation, trace

EVIDENCE = {"clock": "judge (thaw to done)", "roofline_ms": 0.5, "floor_ms": 0.25, "verified_calls": 18}


def judged(session: str = "s1", at: str = "2026-01-01T00:00:00+00:00", rows: int = 4, **over: Any) -> Trace:
    evaluation = {
        "subject": {"session": session, "judge_version": "1.0"},
        "evidence": EVIDENCE,
        "timestamp": at,
        **over,
    }
    environment = {**raw_evaluation()["environment"], "sandbox": over.pop("sandbox", "bwrap")}
    evaluation.pop("sandbox", None)
    return trace(workload={"axes": {"batch_size": rows}}, evaluation={**evaluation, "environment": environment})


def held(traces: list[Trace], **verdicts: int) -> list[bool | None]:
    return [check.holds for check in checks(traces, Counter(verdicts))]


def test_what_was_judged_well_holds_throughout() -> None:
    found = checks([judged(), judged(rows=8)], Counter(PASSED=2))
    assert [check.holds for check in found] == [True] * 6
    told = {check.name: check.found for check in found}
    assert told["Kept apart from the judge"] == "bwrap"
    assert told["Outputs checked of calls with fresh inputs"] == "36, 18 or more a workload"
    assert told["Slower than the device's physical limit"] == "the nearest median takes 4 times the least time"


@pytest.mark.parametrize(
    ("place", "over"),
    [
        (1, {"sandbox": "none"}),
        (2, {"evidence": {**EVIDENCE, "clock": "none (triton interpreter)"}}),
        (4, {"evidence": {**EVIDENCE, "floor_ms": 1.5}}),
        (5, {"statistics": {"n": 5, "sessions": 1, "median_ms": 1.0}}),
    ],
)
def test_one_trace_that_breaks_it_is_enough(place: int, over: dict[str, Any]) -> None:
    expected = [True] * 6
    expected[place] = False
    assert held([judged(), judged(rows=8, **over)], PASSED=2) == expected


@pytest.mark.parametrize("verdict", ["CHEAT_DETECTED", "SUSPECT", "RULE_VIOLATION"])
def test_an_accusation_on_any_device_is_told(verdict: str) -> None:
    found = checks([judged()], Counter({"PASSED": 9, verdict: 1}))[0]
    assert found.holds is False
    assert found.found == f"1 {verdict.lower().replace('_', ' ')}"


def test_of_nothing_nothing_is_known() -> None:
    assert held([]) == [None] * 6
    assert held([judged(evidence=None, statistics=None)], PASSED=1) == [True, True, None, None, None, None]


def test_sittings_are_told_apart_the_latest_first() -> None:
    early, late = "2026-01-01T00:00:00+00:00", "2026-02-01T00:00:00+00:00"
    wrong = judged("s1", early, status="INCORRECT_NUMERICAL", verdict="INCORRECT_NUMERICAL")
    found = sittings([judged("s1", early), judged("s2", late), judged("s2", late, 8), wrong])
    assert [each.session for each in found] == ["s2", "s1"]
    assert [dict(each.verdicts) for each in found] == [{"PASSED": 2}, {"PASSED": 1, "INCORRECT_NUMERICAL": 1}]
    assert found[0].ratio == 2.0


def test_a_sitting_goes_from_small_to_large() -> None:
    mixed = [judged("s2", rows=64), judged("s1", rows=1), judged("s2", rows=2), judged("s1", rows=128)]
    told = [(each.evaluation and each.evaluation.subject, each.workload.axes["batch_size"]) for each in ordered(mixed)]
    assert [rows for _, rows in told] == [2, 64, 1, 128]
