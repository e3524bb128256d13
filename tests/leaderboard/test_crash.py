"""Whatever is killed, and whenever: what was acknowledged ends exactly once, with the right verdict."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from kernelmill.evaluator.sandbox import probe
from kernelmill.leaderboard import boards, ranking
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.engine import DatabaseUnreachable
from kernelmill.leaderboard.submissions import TERMINAL
from tests.builders import SOURCE
from tests.leaderboard.postgres import Postgres, binaries
from tests.leaderboard.rig import Rig
from tests.leaderboard.world import DEFINITION, UUIDS, scripted, small_dataset, submission

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(binaries() is None, reason="no PostgreSQL on this host: apt-get install postgresql"),
]
VERDICTS = ("PASSED 2.0", "PASSED 0.5", "INCORRECT_NUMERICAL", "RUNTIME_ERROR", "CHEAT_DETECTED", "TIMEOUT")
SEED = 20261130


@pytest.fixture
def server() -> Iterator[Postgres]:
    made = Postgres()
    try:
        made.start(durable=True)
        yield made
    finally:
        made.close()


def disturb(rig: Rig, kills: int, ended: threading.Event) -> threading.Thread:
    """A hand that kills something every now and then, from the first submission on."""
    dice = random.Random(SEED)

    def work() -> None:
        for _ in range(kills):
            if ended.wait(dice.uniform(0.3, 1.7)):
                return
            rig.kill_something(dice)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def run(rig: Rig, bodies: list[dict[str, object]], kills: int) -> dict[str, int]:
    """Submits all of them while things are killed, and waits until all have ended; ids by the body's place."""
    ended = threading.Event()
    hand = disturb(rig, kills, ended)
    try:
        accepted = {rig.submit(body, f"key-{place}"): place for place, body in enumerate(bodies)}
        hand.join()
        rig.wait(lambda: all_ended(rig, accepted))
    finally:
        ended.set()
        hand.join()
    assert rig.kills == kills
    return accepted


def all_ended(rig: Rig, accepted: dict[str, int]) -> bool:
    try:
        with rig.opened() as database, database.read() as connection:
            states = connection.scalars(select(t.Submission.state).where(t.Submission.id.in_(accepted))).all()
            stale = connection.scalar(select(t.Board.definition).where(t.Board.is_stale).limit(1))
    except DatabaseUnreachable:
        return False
    return len(states) == len(accepted) and set(states) <= set(TERMINAL) and stale is None


def check_ends(rig: Rig, accepted: dict[str, int]) -> None:
    """Each ended once; each workload has one verdict."""
    with rig.opened() as database, database.read() as connection:
        events = connection.execute(select(t.Event.submission_id, t.Event.kind, t.Event.data)).all()
        traces = connection.execute(select(t.Trace.submission_id, t.Trace.workload_uuid)).all()
    ends = Counter(
        row.submission_id for row in events if row.kind == "state" and json.loads(row.data)["state"] in TERMINAL
    )
    told = Counter(row.submission_id for row in events if row.kind == "verdict")
    judged = Counter((row.submission_id, row.workload_uuid) for row in traces)
    assert ends == dict.fromkeys(accepted, 1)
    assert told == dict.fromkeys(accepted, len(UUIDS))
    assert judged == {(number, uuid): 1 for number in accepted for uuid in UUIDS}


def test_three_hundred_submissions_survive_thirty_kills(server: Postgres, tmp_path: Path) -> None:
    dataset = small_dataset(tmp_path / "dataset")
    rig = Rig(server, "crash", dataset, tmp_path, "tests.leaderboard.scripted_dispatch", ["one", "two"])
    bodies = [submission(scripted(VERDICTS[n % len(VERDICTS)], str(n)), name=f"solution_{n}") for n in range(300)]
    rig.start()
    try:
        accepted = run(rig, bodies, kills=30)
        check_ends(rig, accepted)
        with rig.opened() as database, database.read() as connection:
            rows = connection.execute(select(t.Submission.id, t.Submission.state, t.Submission.outcome)).all()
            edition = ranking.edition(connection, None)
            head = ranking.heads(connection, edition.id, definition=DEFINITION)[0]
            entries = ranking.Ranking().board(connection, edition.id, head)["entries"]
    finally:
        rig.close()
    for row in rows:
        verdict = VERDICTS[accepted[row.id] % len(VERDICTS)]
        assert (row.state, row.outcome) == ("done", "passed" if verdict.startswith("PASSED") else "not_passed")
    by_name = {entry["solution"]: entry for entry in entries}
    assert len(by_name) == 301
    for place in range(300):
        verdict = VERDICTS[place % len(VERDICTS)].split()[0]
        assert by_name[f"solution_{place}"]["verdicts"] == {verdict: 4}


def test_the_boards_are_what_the_traces_say_after_it(server: Postgres, tmp_path: Path) -> None:
    dataset = small_dataset(tmp_path / "dataset")
    rig = Rig(server, "rescore", dataset, tmp_path, "tests.leaderboard.scripted_dispatch", ["one"])
    bodies = [submission(scripted("PASSED 2.0", str(n)), name=f"solution_{n}") for n in range(12)]
    rig.start()
    try:
        run(rig, bodies, kills=5)
    finally:
        rig.close()
    with rig.opened() as database:
        assert boards.rescore(database).different == []


@pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")
def test_twenty_submissions_in_the_real_sandbox_survive_kills(server: Postgres, tmp_path: Path) -> None:
    dataset = small_dataset(tmp_path / "dataset", baseline=SOURCE)
    rig = Rig(server, "sandbox", dataset, tmp_path, "kernelmill.leaderboard.dispatch", ["cpu"])
    wrong = SOURCE.replace("output.copy_(", "output.copy_(1.5 * ")
    bodies = [submission(f"# {n}\n{wrong if n % 4 == 3 else SOURCE}", name=f"solution_{n}") for n in range(20)]
    rig.start()
    try:
        start = time.monotonic()
        accepted = run(rig, bodies, kills=6)
        check_ends(rig, accepted)
        with rig.opened() as database, database.read() as connection:
            rows = connection.execute(select(t.Submission.id, t.Submission.state, t.Submission.outcome)).all()
    finally:
        rig.close()
    assert time.monotonic() - start < 600
    for row in rows:
        assert (row.state, row.outcome) == ("done", "not_passed" if accepted[row.id] % 4 == 3 else "passed")
