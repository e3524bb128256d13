"""A run: budgets stop it exactly, a crash loses one step at most, and a replay says the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelmill.agents import loop
from kernelmill.agents.budget import Budget, Exhausted, Limits, UsageError
from kernelmill.agents.journal import Journal, ReplayMismatch
from kernelmill.agents.outcome import Fidelity, Outcome
from kernelmill.agents.redaction import MARK
from kernelmill.trace_schema import Solution
from kernelmill.trace_schema.errors import DatasetError
from tests.agents import toy
from tests.agents.walks import Walk

ROOT = Path(__file__).resolve().parents[2]
CRASHING = """
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from kernelmill.agents import loop
from tests.agents import toy
from tests.agents.walks import Walk

class Slow(toy.ToyJudge):
    def judge(self, solutions, fidelity, deadline_s):
        if len(self.judged) == int(sys.argv[2]):
            print("here", flush=True)
            sys.stdin.read()
        return super().judge(solutions, fidelity, deadline_s)

loop.run(Walk(), Slow(), toy.journal(Path(sys.argv[1])), toy.history(evaluations=9))
"""


def walk(folder: Path, width: int = 1, **limits: float) -> tuple[loop.Result, toy.ToyJudge]:
    judge = toy.ToyJudge()
    return loop.run(Walk(width), judge, toy.journal(folder), toy.history(**limits)), judge


def test_a_strategy_that_ends_by_itself_leaves_the_best(tmp_path: Path) -> None:
    result, judge = walk(tmp_path)
    assert result.improved and not result.exhausted
    assert result.best is not None and result.best.proposal.solution.name == "toy-6-3"
    assert len(judge.judged) == toy.SIZE**2


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("limit", [0, 1, 7])
def test_evaluations_stop_exactly(tmp_path: Path, limit: int, width: int) -> None:
    result, judge = walk(tmp_path, width, evaluations=limit)
    assert (result.exhausted, len(judge.judged), len(result.attempts)) == ("evaluations", limit, limit)


def test_device_seconds_stop_before_they_would_be_passed(tmp_path: Path) -> None:
    result, judge = walk(tmp_path, device_s=4.5 * toy.SECONDS)
    assert (result.exhausted, len(judge.judged)) == ("device_s", 4)
    assert result.used["device_s"] == 4 * toy.SECONDS


def test_no_wall_time_is_no_run(tmp_path: Path) -> None:
    result, judge = walk(tmp_path, wall_s=0)
    assert (result.exhausted, judge.judged, result.best) == ("wall_s", [], None)


class Sleepy(toy.ToyJudge):
    """Takes a while, and notes how long it may."""

    def __init__(self) -> None:
        super().__init__()
        self.deadlines: list[float] = []

    def judge(self, solutions: Sequence[Solution], fidelity: Fidelity, deadline_s: float) -> list[Outcome]:
        self.deadlines.append(deadline_s)
        time.sleep(0.05)
        return super().judge(solutions, fidelity, deadline_s)


def test_wall_time_is_what_a_step_gets_and_no_step_begins_after_it(tmp_path: Path) -> None:
    judge = Sleepy()
    result = loop.run(Walk(), judge, toy.journal(tmp_path), toy.history(wall_s=0.2))
    assert result.exhausted == "wall_s"
    assert 1 <= len(judge.judged) <= 4, "each takes a quarter of it at least"
    assert judge.deadlines == sorted(judge.deadlines, reverse=True)
    assert 0 < judge.deadlines[-1] <= judge.deadlines[0] <= 0.2


@given(st.lists(st.floats(0, 5), max_size=20), st.floats(0, 20))
def test_a_reservation_never_passes_its_limit(amounts: list[float], limit: float) -> None:
    budget = Budget(Limits(money=limit))
    for amount in amounts:
        try:
            with budget.reserved(money=amount) as spent:
                spent["money"] = amount / 2
        except Exhausted:
            assert budget.used["money"] + amount > limit
    assert budget.used["money"] <= limit * (1 + 1e-9)


def test_a_step_that_fails_costs_what_was_reserved() -> None:
    budget = Budget(Limits(tokens=100))
    with pytest.raises(ValueError), budget.reserved(tokens=60):
        raise ValueError
    assert budget.left("tokens") == 40


def test_limits_are_read_from_words() -> None:
    assert Limits.parse(["evaluations=20,wall=5m", "tokens=200k"]) == Limits(evaluations=20, wall_s=300, tokens=200_000)
    with pytest.raises(UsageError, match="name of evaluations, device_s"):
        Limits.parse(["speed=3"])


@pytest.mark.parametrize("at", [0, 3, 8])
def test_a_killed_run_is_taken_up_where_it_was(tmp_path: Path, at: int) -> None:
    command = [sys.executable, "-c", CRASHING, str(tmp_path / "killed"), str(at)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == b"here\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
    process.stdout.close()
    process.stdin.close()
    resumed, judge = walk(tmp_path / "killed", evaluations=9)
    whole, _ = walk(tmp_path / "whole", evaluations=9)
    assert len(judge.judged) == 9 - at
    assert [one.proposal.solution for one in resumed.attempts] == [one.proposal.solution for one in whole.attempts]
    assert resumed.best == whole.best


def test_a_line_that_a_crash_cut_off_is_asked_again(tmp_path: Path) -> None:
    whole, _ = walk(tmp_path, evaluations=5)
    events = tmp_path / "events.jsonl"
    events.write_bytes(events.read_bytes()[:-20])
    resumed, judge = walk(tmp_path, evaluations=5)
    assert (resumed.best, judge.judged) == (whole.best, [])


def test_a_replay_asks_nobody_and_writes_nothing(tmp_path: Path) -> None:
    whole, _ = walk(tmp_path, evaluations=5)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    judge = toy.ToyJudge()
    again = loop.run(Walk(), judge, Journal(tmp_path, strict=True), toy.history(evaluations=5))
    assert (again, judge.judged) == (whole, [])
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_replay_of_another_run_is_refused(tmp_path: Path) -> None:
    walk(tmp_path, evaluations=5)
    with pytest.raises(ReplayMismatch, match="another candidates"):
        loop.run(Walk(2), toy.ToyJudge(), Journal(tmp_path, strict=True), toy.history(evaluations=5))
    with pytest.raises(ReplayMismatch, match="step 5 was end, and the run now asks for judge"):
        loop.run(Walk(), toy.ToyJudge(), Journal(tmp_path, strict=True), toy.history(evaluations=6))


def test_a_changed_event_is_noticed(tmp_path: Path) -> None:
    walk(tmp_path, evaluations=3)
    events = tmp_path / "events.jsonl"
    events.write_text(events.read_text().replace("toy-0-0", "toy-9-9", 1))
    with pytest.raises(DatasetError, match="line 2 does not follow"):
        Journal(tmp_path)


def test_secrets_never_reach_a_file(tmp_path: Path) -> None:
    looks, known = "sk-proj-abcdefghijklmnopqrstuv", "tulip-in-the-rain"
    journal = Journal(tmp_path, secrets=(known,))
    asked = {"text": f"key {looks}, {known}", "long": f"{known} " * 100}
    event = journal.perform("model", asked, lambda: {"log": f"Bearer {looks}"})
    journal.configure({"url": f"http://{known}@host"})
    assert event.answered == {"log": MARK}
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 3
    for path in files:
        assert looks not in path.read_text() and known not in path.read_text()


def test_another_set_up_needs_another_directory(tmp_path: Path) -> None:
    toy.journal(tmp_path).configure({"seed": 1})
    toy.journal(tmp_path).configure({"seed": 1})
    with pytest.raises(ReplayMismatch, match="other settings \\(seed\\)"):
        toy.journal(tmp_path).configure({"seed": 2})


def test_long_texts_are_kept_once(tmp_path: Path) -> None:
    journal = toy.journal(tmp_path)
    for _ in range(2):
        journal.perform("model", {"prompt": "p" * 5000}, lambda: {"reply": "r"})
    assert len(list((tmp_path / "blobs").iterdir())) == 1
    assert toy.journal(tmp_path).recorded[1].asked == {"prompt": "p" * 5000}
    assert json.loads((tmp_path / "events.jsonl").read_text().splitlines()[0])["asked"]["prompt"]["blob"]
