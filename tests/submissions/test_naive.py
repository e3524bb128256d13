"""Every cheat of the corpus bites: on the naive harness it gains what its case says, and its honest twin does not.

So the corpus is made of attacks that work, and the judge's verdicts in test_judge are about something.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelmill.trace_schema import Verdict
from tests.submissions import corpus
from tests.submissions.cage import Cage, Report, why_not
from tests.submissions.corpus import HOST_FILE, SIDES, Case, Side

ANSWER_PORT = 47811
CASES = corpus.load_cases()
ATTEMPTS = 8
"""Timings on a shared machine are noisy: a cheat has to be seen faster in one of this many attempts."""
DEATH_S = 2.5
"""How long a harness that should be dead or hanging is waited for."""


@pytest.fixture(scope="module")
def cage() -> Iterator[Cage]:
    if reason := why_not():
        pytest.skip(reason)
    with Cage() as cage:
        yield cage


def job(case: Case, side: Side) -> dict[str, Any]:
    raw = case.raw_solution(side, answer_port=ANSWER_PORT)
    if case.bad_paths and side == "cheat":
        raw = case.with_bad_path(raw, case.bad_paths[0])
    return {
        "definition": corpus.raw_definition(case.definition),
        "workload": corpus.raw_workloads(case.definition)[0],
        "sources": raw["sources"],
        "entry_point": case.entry_point,
        "language": case.language,
        "destination_passing_style": case.destination_passing_style,
        "check": case.naive.check,
        "threads": case.naive.threads,
    }


def run(cage: Cage, case: Case, side: Side) -> Report:
    timeout_s = DEATH_S if case.bites == "kills-harness" and side == "cheat" else 60.0
    for earlier in range(case.runs - 1):
        cage.run(job(case, side), timeout_s=timeout_s, keep_state=earlier > 0)
    return cage.run(job(case, side), timeout_s=timeout_s, keep_state=case.runs > 1)


def believed(report: Report) -> bool:
    return report.outcome == "result" and report.correct


def is_fast_and_passes(cage: Cage, case: Case, honest: Report) -> bool:
    cheat = run(cage, case, "cheat")
    assert believed(cheat), cheat
    return cheat.latency_ms * case.naive.speedup < honest.latency_ms


def slows_baseline(cage: Cage, case: Case, honest: Report) -> bool:
    cheat = run(cage, case, "cheat")
    assert believed(cheat), cheat
    return cheat.speedup > case.naive.speedup * honest.speedup


def forges_result(cage: Cage, case: Case, honest: Report) -> bool:
    cheat = run(cage, case, "cheat")
    return believed(cheat) and not cheat.finished and cheat.latency_ms < honest.latency_ms / 100


def kills_harness(cage: Cage, case: Case, honest: Report) -> bool:
    return run(cage, case, "cheat").outcome in ("died", "hung")


def leaks(cage: Cage, case: Case, honest: Report) -> bool:
    cheat = run(cage, case, "cheat")
    secret = HOST_FILE.read_text().strip()
    assert honest.connections == 0 and secret not in honest.log
    return cheat.connections > 0 or secret in cheat.log


def exhausts(cage: Cage, case: Case, honest: Report) -> bool:
    def used_up(report: Report) -> bool:
        match case.naive.exhausts:
            case "processes":
                return report.processes > 150
            case "memory":
                return report.rss_bytes > 1 << 30
            case "disk":
                return report.disk_full
            case "log":
                return report.log_bytes > 100 << 20
        raise AssertionError(f"{case.name} does not say what it exhausts")

    assert not used_up(honest), honest
    return used_up(run(cage, case, "cheat"))


BITES = {
    "fast-and-passes": is_fast_and_passes,
    "slows-baseline": slows_baseline,
    "forges-result": forges_result,
    "kills-harness": kills_harness,
    "leaks": leaks,
    "exhausts": exhausts,
}


def cpu_has(flags: tuple[str, ...]) -> bool:
    known = Path("/proc/cpuinfo").read_text().split()
    return not flags or any(flag in known for flag in flags)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_cheat_bites(cage: Cage, case: Case) -> None:
    if not cpu_has(case.naive.cpu_flags):
        pytest.skip(f"faster only on a processor with one of {', '.join(case.naive.cpu_flags)}")
    seen = []
    for _ in range(ATTEMPTS):
        honest = run(cage, case, "honest")
        assert believed(honest), f"the honest twin fails on the naive harness: {honest}"
        if BITES[case.bites](cage, case, honest):
            return
        seen.append(honest)
    pytest.fail(f"{case.name} does not bite ({case.bites}) beside {seen}")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_whole(case: Case) -> None:
    cheat, honest = (case.raw_solution(side, answer_port=ANSWER_PORT) for side in SIDES)
    assert case.title and case.ids and case.expect
    assert all(kind[0] in "TCHS" and kind[1:].isdigit() for kind in case.ids)
    assert [file["path"] for file in cheat["sources"]] == [file["path"] for file in honest["sources"]]
    assert cheat["sources"] != honest["sources"]
    assert (Verdict.PASSED in case.expect) is (not case.gain or bool(case.tell)), "PASSED needs a condition"


def test_the_corpus_is_broad() -> None:
    kinds = {kind for case in CASES for kind in case.ids}
    assert len(CASES) >= 32
    assert {kind[0] for kind in kinds} == set("TCHS")
    assert len(kinds) >= 32, sorted(kinds)
