"""A board out of stored shares, one of them made anew with each trace, is the board that is scored from nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelmill.evaluator.admission import Admission, Ignored, Listing
from kernelmill.evaluator.authors import dump_standings, load_standings, standings
from kernelmill.evaluator.findings import Findings, Share, share_of
from kernelmill.evaluator.record import Record
from kernelmill.evaluator.scoring import Score, score_findings
from kernelmill.trace_schema import InternalError, Solution, Trace
from tests.evaluator.records import (
    BASELINE,
    CPU,
    FAST,
    OTHER,
    SLOW,
    a_definition,
    a_public_trace,
    a_solution,
    a_trace,
    a_workload,
    named,
    on_day,
    scored,
)

GPU = "NVIDIA H200"
LOADS = [a_workload("w1", weight=3), a_workload("w2", batch=16), a_workload("secret", batch=32, split="hidden")]
OLD, COPY, TWIN = a_solution("fast", source="v1"), a_solution("copy", source="torch"), a_solution("twin", source="slow")
EAGER = a_solution("eager", author="baseline")
LISTED = named(FAST, SLOW, OTHER, COPY, TWIN, BASELINE, EAGER)
"""`fast` has been sent in twice, `copy` is a baseline's source, and `twin` that of `slow`."""


@dataclass
class Service:
    """What a leaderboard keeps: traces, what is listed, and shares as text, made anew only where a trace bears."""

    listings: dict[str, Listing]
    traces: list[Trace] = field(default_factory=list)
    shares: dict[tuple[str, str], str] = field(default_factory=dict)

    def receive(self, trace: Trace) -> None:
        self.traces.append(trace)
        source = _source(trace)
        bearing = {name for name, listing in self.listings.items() if listing.hash == source}
        for name in bearing | {trace.solution or ""}:
            self.renew(name)

    def list(self, solution: Solution) -> None:
        self.listings[solution.name] = Listing.of(solution)
        self.renew(solution.name)

    def renew(self, name: str) -> None:
        known = {each: listing for each, listing in self.listings.items() if each == name or listing.is_baseline}
        source = known[name].hash if name in known else None
        bearing = [each for each in self.traces if each.solution == name or (source and _source(each) == source)]
        for device in (CPU, GPU):
            admission = Admission.of(a_definition(), LOADS, device_model=device, listings=known)
            self.shares[device, name] = share_of(name, bearing, admission).to_json()

    def board(self, device: str) -> Score:
        shares = [Share.from_json(text) for (model, _), text in self.shares.items() if model == device]
        return score_findings(
            Findings.of(LOADS, shares),
            definition=a_definition().name,
            op_type=a_definition().op_type,
            device_model=device,
            listings=self.listings,
        )


def _source(trace: Trace) -> str | None:
    return trace.evaluation.subject.solution_hash if trace.evaluation and trace.evaluation.subject else None


def listings(solutions: Mapping[str, Solution]) -> dict[str, Listing]:
    return {name: Listing.of(solution) for name, solution in solutions.items()}


VERDICTS = ["TIMEOUT", "INCORRECT_NUMERICAL", "SUSPECT", "CHEAT_DETECTED"]


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Anything that may lie in a store: mostly passes, so that most boards have ranks to compare."""
    solution = draw(
        st.sampled_from([FAST, FAST, OLD, SLOW, SLOW, OTHER, COPY, TWIN, TWIN, BASELINE, a_solution("gone")])
    )
    load = draw(st.sampled_from([*LOADS, *LOADS, a_workload("left")]))
    if draw(st.integers(0, 19)) == 0:
        return a_public_trace(solution, load)
    over: dict[str, Any] = {
        "device": draw(st.sampled_from([CPU, CPU, CPU, GPU])),
        "sandbox": draw(st.sampled_from(["bwrap"] * 8 + ["none"])),
        "judge_version": draw(st.sampled_from(["1.0", "1.0", "1.1", "2.0"])),
        "timestamp": draw(st.sampled_from([*map(on_day, range(1, 6)), "2026-04-03T00:00:00", "1 April 2026"])),
        "session": draw(st.sampled_from([None, "s1", "s2", "s3"])),
        "baseline": draw(st.sampled_from([*[BASELINE] * 6, EAGER, a_solution("old", author="baseline")])),
        "verdict": draw(st.sampled_from([*["PASSED"] * 9, *VERDICTS])),
        "ci": draw(st.sampled_from([None, None, [0.1, inf]])),
        "sessions": draw(st.sampled_from([1, 3])),
    }
    return a_trace(solution, load, draw(st.floats(0.3, 4.0)), baseline_ms=draw(st.floats(0.5, 9.0)), **over)


@settings(max_examples=150, deadline=None)
@given(st.lists(traces(), max_size=25), st.randoms(use_true_random=False))
def test_law_folding_traces_in_one_by_one_is_scoring_from_nothing(found: list[Trace], random: Any) -> None:
    service = Service(listings(LISTED))
    for trace in random.sample(found, len(found)):
        service.receive(trace)
    for device in (CPU, GPU):
        assert service.board(device) == scored(LOADS, found, solutions=LISTED, device_model=device)


@settings(max_examples=60, deadline=None)
@given(st.lists(traces(), max_size=12), st.lists(traces(), max_size=12))
def test_law_a_source_sent_in_between_makes_its_own_share_anew_and_no_other(
    before: list[Trace], after: list[Trace]
) -> None:
    service = Service(listings({**LISTED, "fast": OLD}))
    for trace in before:
        service.receive(trace)
    service.list(FAST)
    for trace in after:
        service.receive(trace)
    assert service.board(CPU) == scored(LOADS, before + after, solutions=LISTED)


@settings(max_examples=100, deadline=None)
@given(st.lists(traces(), max_size=12))
def test_law_shares_and_standings_survive_json_exactly(found: list[Trace]) -> None:
    admission = Admission.of(a_definition(), LOADS, device_model=CPU, listings=listings(LISTED))
    for name in {trace.solution or "" for trace in found}:
        share = share_of(name, [trace for trace in found if trace.solution == name], admission)
        assert Share.from_json(share.to_json()) == share
    ranked = standings(scored(LOADS, found, solutions=LISTED))
    assert load_standings(dump_standings(ranked)) == ranked


def share(*found: Trace, solutions: Mapping[str, Solution] = LISTED) -> Share:
    admission = Admission.of(a_definition(), LOADS, device_model=CPU, listings=listings(solutions))
    return share_of("fast", found, admission)


def test_a_share_with_an_open_interval_is_standard_json() -> None:
    made = share(a_trace(FAST, LOADS[0], 0.1 + 0.2, ci=[0.1, inf]))
    text = made.to_json()
    assert json.loads(text, parse_constant=pytest.fail) and " " not in text.replace("judge (perf_counter)", "")
    assert Share.from_json(text) == made


def test_a_share_in_another_format_is_refused_and_the_message_says_what_to_do() -> None:
    text = share().to_json().replace("[1,", "[0,", 1)
    with pytest.raises(InternalError, match="a share in format 0, where 1 is read: make it anew of its traces"):
        Share.from_json(text)


def test_a_share_counts_what_it_ignored_and_leaves_other_names_to_theirs() -> None:
    twin = a_solution("again", source="fast")
    made = share(a_trace(OLD, LOADS[0]), a_trace(FAST, LOADS[0], device=GPU), a_trace(twin, LOADS[0]))
    assert (made.record, made.ignored) == (None, {Ignored.SOLUTION: 1, Ignored.OTHER_DEVICE: 1})


def barred(record: Record | None) -> str | None:
    assert record is not None
    return record.barred


def test_a_cheat_under_another_name_bars_a_share_that_is_shown_it() -> None:
    load, again = LOADS[0], a_solution("again", source="fast")
    cheat = a_trace(again, load, verdict="CHEAT_DETECTED", device=GPU)
    assert barred(share(a_trace(FAST, load), cheat).record) == "CHEAT_DETECTED on w1"
    assert barred(share(a_trace(FAST, load)).record) is None


def test_a_cheat_found_under_another_name_reaches_the_board() -> None:
    service = Service(listings(LISTED))
    for trace in (a_trace(SLOW, LOADS[0]), a_trace(TWIN, LOADS[0], verdict="CHEAT_DETECTED")):
        service.receive(trace)
    assert {row.solution: row.off_board for row in service.board(CPU).entries} == {
        "slow": "CHEAT_DETECTED on w1",
        "twin": "CHEAT_DETECTED on w1",
        "torch": None,
    }


def test_the_baseline_is_the_one_last_judged_against_whatever_share_says_so() -> None:
    service = Service(listings(LISTED))
    service.receive(a_trace(SLOW, LOADS[0], baseline=EAGER, timestamp="1 April 2026"))
    assert service.board(CPU) == scored(LOADS, service.traces, solutions=LISTED)
    service.receive(a_trace(FAST, LOADS[0], baseline=BASELINE, timestamp=on_day(9)))
    assert [row.solution for row in service.board(CPU).entries if row.is_baseline] == ["eager"]


def test_without_a_listed_baseline_nothing_counts_in_a_share() -> None:
    assert share(a_trace(FAST, LOADS[0]), solutions=named(FAST)).ignored == {Ignored.BASELINE: 1}
