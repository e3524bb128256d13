"""The dispatcher with a device that runs nothing: every way in which a lease can end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from kernelmill.dataset import Dataset
from kernelmill.evaluator.executors import LocalExecutor
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.leaderboard import leases
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.dispatcher import Dispatcher
from kernelmill.leaderboard.spool import Spool, read_order
from tests.leaderboard.world import CPU, DEFINITION, UUIDS, World, scripted, told

OWNER = "tests.leaderboard.scripted_owner"
WORDS = (
    "hidden_states +",
    "weight *",
    "output.sum() -",
    "weight[1] /",
    "(output)(2) %",
    "-",
    "hidden_states[weight] **",
    "~",
)
"""Eight ways to go on with an expression: no two lines of them are alike."""


@pytest.fixture
def dispatcher(world: World, tmp_path: Path) -> Iterator[Dispatcher]:
    made = Dispatcher(
        world.database,
        lambda: LocalExecutor(["cpu"], JudgeOptions(), owner=OWNER),
        Spool(tmp_path / "spool", world.dataset.root),
        "test",
        lease_s=3.0,
        attempts=2,
    )
    yield made
    made.close()


def work(world: World, dispatcher: Dispatcher, number: str) -> dict[str, Any]:
    """Until it has ended, without the pauses between attempts; how it stands then."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with world.database.write() as connection:
            connection.execute(update(t.Submission).values(not_before=None))
        dispatcher.step(threading.Event())
        view = world.view(number)
        if view["state"] in ("done", "failed", "cancelled"):
            return view
    raise AssertionError(f"still {world.view(number)}")


def test_it_judges_records_and_ranks(world: World, dispatcher: Dispatcher, tmp_path: Path) -> None:
    number = world.submit(scripted("PASSED 2.0"), name="fast")["id"]
    assert work(world, dispatcher, number)["outcome"] == "passed"
    board = world.get(f"/api/v1/leaderboard?definition={DEFINITION}").json()["boards"][0]
    assert board["rows"][0]["solution"] == "fast"
    assert world.get("/api/v1/devices").json()["items"][0]["is_judging"]
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_wrong_solution_is_done_and_has_not_passed(world: World, dispatcher: Dispatcher) -> None:
    view = work(world, dispatcher, world.submit(scripted("INCORRECT_NUMERICAL"))["id"])
    assert (view["state"], view["outcome"]) == ("done", "not_passed")


def test_an_owner_that_dies_costs_an_attempt_and_no_verdict_twice(
    world: World, dispatcher: Dispatcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELMILL_TEST_DIED", str(tmp_path / "died"))
    view = work(world, dispatcher, world.submit(scripted("PASSED 2.0", "x", "# die"))["id"])
    assert (view["state"], view["attempts"], view["verdicts"]) == ("done", 2, {"PASSED": 4})


def test_a_fault_of_ours_is_tried_again_and_then_told(world: World, dispatcher: Dispatcher) -> None:
    view = work(world, dispatcher, world.submit(scripted("PASSED", "x", "# harness_error"))["id"])
    assert (view["state"], view["attempts"]) == ("failed", 2)
    assert str(view["reason"]).startswith("given up after 2 attempts")


def test_a_fault_of_the_datasets_is_told_at_once(world: World, dispatcher: Dispatcher) -> None:
    number = world.submit(scripted("PASSED"))["id"]
    with world.database.write() as connection:
        connection.execute(update(t.Definition).values(is_current=False))
    view = work(world, dispatcher, number)
    assert (view["state"], view["attempts"]) == ("failed", 1)
    assert "no longer measured" in str(view["reason"])


def test_a_running_submission_is_cancelled_within_seconds(world: World, dispatcher: Dispatcher) -> None:
    number = world.submit(scripted("PASSED", "x", "# sleep: 30"))["id"]
    thread = threading.Thread(target=dispatcher.step, args=[threading.Event()])
    thread.start()
    while world.view(number)["state"] == "queued":
        time.sleep(0.05)
    start = time.monotonic()
    world.client.delete(f"/api/v1/submissions/{number}", headers=world.headers("alice"))
    thread.join(30)
    assert not thread.is_alive()
    assert time.monotonic() - start < 15
    assert world.view(number)["state"] == "cancelled"


def test_a_lease_that_was_taken_over_is_dropped(world: World, dispatcher: Dispatcher) -> None:
    number = world.submit(scripted("PASSED", "x", "# sleep: 30"))["id"]
    thread = threading.Thread(target=dispatcher.step, args=[threading.Event()])
    thread.start()
    while world.view(number)["state"] == "queued":
        time.sleep(0.05)
    with world.database.write() as connection:
        connection.execute(update(t.Submission).values(fence=t.Submission.fence + 1))
    thread.join(30)
    assert not thread.is_alive()
    assert world.view(number)["state"] in ("building", "judging"), "it is the other's to end"


def test_only_what_is_asked_for_is_judged(world: World, dispatcher: Dispatcher) -> None:
    number = world.submit(scripted("PASSED"), workload_uuids=UUIDS[:2])["id"]
    view = work(world, dispatcher, number)
    assert (view["ranked"], view["expected"], view["verdicts"]) == (False, 2, {"PASSED": 2})


def test_an_order_has_nothing_of_anybody_else_and_no_hidden_workload_in_private(world: World, tmp_path: Path) -> None:
    world.submit(scripted("PASSED", "other"), "bob")
    world.submit(scripted("PASSED", "mine"), name="mine", ranked=False)
    lease = world.take()
    assert lease is not None
    with world.database.read() as connection:
        order = read_order(connection, lease)
    unit = Spool(tmp_path / "spool", None).lay(lease, order)
    laid = Dataset.open(unit.dataset)
    assert {solution.name for solution in laid.solutions()} == {"mine", "rmsnorm_baseline"}
    assert [workload.uuid for workload in laid.workloads(DEFINITION)] == UUIDS[:4]


def test_a_lease_does_not_run_out_however_long_a_workload_takes(world: World, dispatcher: Dispatcher) -> None:
    number = world.submit(scripted("PASSED", "x", "# sleep: 4"), workload_uuids=UUIDS[:1])["id"]
    thread = threading.Thread(target=dispatcher.step, args=[threading.Event()])
    thread.start()
    time.sleep(4)
    with world.database.write() as connection:
        assert leases.take(connection, CPU, "another", lease_s=60, attempts=2) is None
    thread.join(30)
    assert world.view(number)["attempts"] == 1


def test_a_near_clone_names_what_it_comes_from_whichever_is_judged_first(world: World, dispatcher: Dispatcher) -> None:
    body = "\n".join(f"    x{n} = {' '.join(WORDS[int(digit)] for digit in f'{n * 37:08o}')} 1" for n in range(40))
    first = f"# verdict: PASSED 2.0\ndef run(hidden_states, weight, output):\n{body}\n"
    other = first.replace("hidden_states", "a").replace("PASSED 2.0", "PASSED 2.1")
    original = world.submit(first, name="original")["id"]
    copied = world.submit(other, "bob", name="copied")["id"]
    with world.database.write() as connection:  # the later one comes first
        connection.execute(update(t.Submission).where(t.Submission.id == copied).values(priority=0))
    assert work(world, dispatcher, copied)["state"] == "done"
    assert world.view(original)["state"] == "queued"
    assert world.view(copied)["solution"]["derived_from"] == "original"
    assert work(world, dispatcher, original)["solution"]["derived_from"] is None
    notes = [data for kind, data, _ in told(world.get(f"/api/v1/submissions/{copied}/events").text) if kind == "note"]
    assert len(notes) == 1
    assert "is in original as well" in notes[0]["text"]
