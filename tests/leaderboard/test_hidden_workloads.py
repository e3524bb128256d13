"""A hidden workload is told of by a status and no more, whatever is asked: else it could be fitted to."""

from __future__ import annotations

import gzip
import io
import tarfile

import pyarrow.parquet as pq
import pytest

from kernelmill.leaderboard import leases, traces
from kernelmill.trace_schema import Trace
from tests.leaderboard.scripted_owner import MODEL
from tests.leaderboard.test_authorisation import MATRIX
from tests.leaderboard.test_openapi import OPERATIONS
from tests.leaderboard.world import DEFINITION, HIDDEN, World, scripted, submission

ROWS = '"batch_size":64'
"""The axes that no other workload has."""


@pytest.fixture
def judged(world: World) -> tuple[World, dict[str, str]]:
    """One that fails everywhere, one that wins, and a private one; by name their submissions."""
    numbers = {}
    for name, verdict in (("wrong", "INCORRECT_NUMERICAL"), ("fast", "PASSED 2.0"), ("private", "PASSED 3.0")):
        numbers[name] = world.submit(scripted(verdict, name), name=name, ranked=name != "private")["id"]
        world.judge()
    world.refresh()
    return world, numbers


def paths(world: World, numbers: dict[str, str]) -> list[str]:
    """Everything that can be read, filled in with what might lead there."""
    edition = world.get("/api/v1/editions").json()["items"][0]["name"]
    found = []
    for method, path in OPERATIONS:
        if method != "get":
            continue
        for number in numbers.values():
            name = edition if "editions" in path else DEFINITION
            found.append(path.format(name=name, hash="wrong", id=number, task_id=number, uuid=HIDDEN))
    found += [f"/api/v1/definitions/{DEFINITION}/ratios?device_model={MODEL}"]
    found += [f"/api/v1/authors/alice/progress?device_model={MODEL}"]
    found += [
        f"/api/v1/traces?{filter_}" for filter_ in (f"workload={HIDDEN}", "solution=wrong", "author=alice", "limit=500")
    ]
    found += [
        f"/api/v1/leaderboard?definition={DEFINITION}",
        "/api/v1/leaderboard?by=solution",
        "/api/v1/leaderboard?by=language",
    ]
    found += [f"/api/v1/leaderboard/history?definition={DEFINITION}", f"/api/v1/apply-table?device_model={MODEL}"]
    return sorted(set(found))


def text_of(body: bytes, kind: str) -> str:
    """Unpacked, without blanks."""
    if kind == "application/gzip":
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(body))) as archive:
            members = [archive.extractfile(member) for member in archive.getmembers()]
            body = b"\n".join(member.read() for member in members if member is not None)
    if kind.endswith("parquet"):
        body = str(pq.read_table(io.BytesIO(body)).to_pylist()).encode()
    return body.decode().replace(" ", "")


def test_no_route_tells_of_it(judged: tuple[World, dict[str, str]]) -> None:
    world, numbers = judged
    for path in paths(world, numbers):
        for who in (None, "reader", "alice", "bob"):
            reply = world.get(path, who)
            told = text_of(reply.content, reply.headers["content-type"])
            if HIDDEN in path and reply.status_code == 404:
                told = told.replace(HIDDEN, "")
            assert HIDDEN not in told, (path, who)
            assert ROWS not in told, (path, who)


def test_an_administrator_sees_it(judged: tuple[World, dict[str, str]]) -> None:
    """So that what is looked for above is known to be there."""
    world, _ = judged
    for path in (f"/api/v1/definitions/{DEFINITION}/workloads", "/api/v1/traces?limit=500"):
        told = text_of(world.get(path, "root").content, "application/json")
        assert HIDDEN in told
        assert ROWS in told


def test_why_somebody_is_off_the_board_is_told_without_its_name(world: World) -> None:
    """A cheat that was caught on the hidden workload alone."""
    world.submit(scripted("PASSED 2.0"), name="caught")
    lease = world.take()
    assert lease is not None
    honest = world.verdicts(lease)
    with world.database.write() as connection:
        for trace in honest:
            traces.record(connection, lease, caught(trace) if trace.workload.uuid == HIDDEN else trace)
        leases.finish(connection, lease, "done", outcome="not_passed")
    world.refresh()
    board = world.get(f"/api/v1/leaderboard?definition={DEFINITION}")
    reason = next(row["off_board"] for row in board.json()["boards"][0]["rows"] if row["solution"] == "caught")
    assert reason.endswith("on a hidden workload")
    assert HIDDEN not in board.text


def caught(trace: Trace) -> Trace:
    """The same, but for what the judge made of it."""
    raw = trace.model_dump(mode="json", exclude_unset=True)
    told = raw["evaluation"]
    kept = {name: told[name] for name in ("environment", "timestamp", "log", "subject")}
    raw["evaluation"] = {**kept, "status": "RUNTIME_ERROR", "verdict": "CHEAT_DETECTED", "reason": "a late writer"}
    return Trace.model_validate(raw)


def test_a_uuid_that_is_hidden_and_one_that_nobody_has_are_refused_alike(world: World) -> None:
    made = []
    for uuid in (HIDDEN, "99999999-1111-4111-8111-111111111111"):
        reply = world.post("/api/v1/submissions", submission(scripted("PASSED"), workload_uuids=[uuid]))
        made.append((reply.status_code, reply.json()["detail"].replace(uuid, "")))
        task = world.post("/evaluate", {**submission(scripted("PASSED", uuid)), "workload_uuids": [uuid]}).json()[
            "task_id"
        ]
        made.append((world.view(task)["expected"], ""))
        made.append((world.get(f"/workloads/{uuid}").status_code, ""))
    assert made[:3] == made[3:]


def test_every_route_that_reads_was_asked(world: World) -> None:
    """The paths above come from the document; what is not in it is the document itself."""
    read = {route.split(" ")[1] for route in MATRIX if route.startswith("GET")}
    assert read - {path for _, path in OPERATIONS} == {"/openapi.json"}
