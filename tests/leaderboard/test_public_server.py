"""Clients of the public FlashInfer-Bench server work with this one unchanged.

A real server at a real port, and a real dispatcher over an owner that opens no device.
"""

from __future__ import annotations

import importlib.util
import json
import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.db.migrate import migrate
from tests.builders import raw_solution
from tests.leaderboard.conftest import BACKENDS, fresh
from tests.leaderboard.live import judging, served
from tests.leaderboard.scripted_owner import MODEL
from tests.leaderboard.world import DEFINITION, HIDDEN, UUIDS, World, scripted, small_dataset
from tests.trace_schema import public_package
from tests.trace_schema.test_differential import PublicPackage

UNKNOWN = "99999999-1111-4111-8111-111111111111"
Json = dict[str, Any]


@pytest.fixture(scope="module", params=BACKENDS)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("public")
    url = f"sqlite:///{folder / 'service.db'}"
    if request.param == "postgresql":
        url = fresh(request.getfixturevalue("postgres"))
    database = Database(url)
    migrate(database)
    world = World(database, small_dataset(folder / "dataset"), folder, auth=False, quota_per_hour=10**6)
    with (
        judging(world, database),
        served(world.client.app) as address,
        httpx.Client(base_url=address, timeout=60) as made,
    ):
        _await_worker(made)
        yield made
    world.close()
    database.close()


@pytest.fixture(scope="module")
def public() -> Iterator[PublicPackage]:
    if importlib.util.find_spec(public_package.NAME) is None:
        pytest.skip("flashinfer-bench is not installed: pip install --no-deps flashinfer-bench")
    package = PublicPackage()
    yield package
    package.close()


def _await_worker(client: httpx.Client) -> None:
    deadline = time.monotonic() + 60
    while not client.get("/health").json()["workers"]:
        assert time.monotonic() < deadline, "no dispatcher came"
        time.sleep(0.05)


def evaluate(client: httpx.Client, verdict: str, salt: str, uuids: list[str] | None = None, *more: str) -> Json:
    """A client sends every field that its models have."""
    raw = raw_solution(name=f"mine_{salt}", source=scripted(verdict, salt, *more), author="somebody")
    raw["spec"] |= {"dependencies": [], "binding": None}
    body = {"solution": {**raw, "description": None}, "workload_uuids": uuids}
    reply = client.post("/evaluate", json=body)
    assert reply.status_code == 200, reply.text
    found: Json = reply.json()
    return found


def result(client: httpx.Client, task: str, timeout: float = 30) -> Json:
    reply = client.get(f"/tasks/{task}", params={"timeout": timeout})
    assert reply.status_code == 200, reply.text
    found: Json = reply.json()
    return found


def detail(reply: httpx.Response, status: int) -> str:
    assert reply.status_code == status, reply.text
    found: str = reply.json()["detail"]
    return found


def test_what_it_is_and_what_there_is(client: httpx.Client) -> None:
    told = client.get("/").json()
    assert {"name", "version", "docs", "endpoints"} <= told.keys()
    assert client.get(told["docs"]).status_code == 200
    paths = {path: set(methods) for path, methods in client.get("/openapi.json").json()["paths"].items()}
    for each in told["endpoints"]:
        assert each.keys() == {"method", "path", "description"}
        assert each["path"] == told["docs"] or each["method"].lower() in paths[each["path"]], each


def test_its_health(client: httpx.Client) -> None:
    told = client.get("/health").json()
    assert told.keys() == {"status", "workers", "queue_size"}
    assert told["status"] == "ok"
    assert told["workers"] == [{"device": MODEL, "healthy": True}]
    assert isinstance(told["queue_size"], int)


def test_a_device_that_a_dataset_s_traces_name_is_no_worker(world: World) -> None:
    world.submit(scripted("PASSED"))
    world.judge()
    assert world.get("/api/v1/devices").json()["items"], "it is known"
    assert world.get("/health").json()["workers"] == []


def test_definitions_and_workloads(client: httpx.Client) -> None:
    assert client.get("/definitions").json() == [{"name": DEFINITION, "description": None}]
    told = client.get(f"/definitions/{DEFINITION}").json()
    assert {"name", "axes", "inputs", "outputs", "reference"} <= told.keys()
    listed = client.get(f"/definitions/{DEFINITION}/workloads").json()
    assert [each["uuid"] for each in listed] == UUIDS[:4]
    for each in listed:
        assert client.get(f"/workloads/{each['uuid']}").json() == each


def test_what_is_not_there_is_named(client: httpx.Client) -> None:
    assert detail(client.get("/definitions/nope"), 404) == "Definition not found: nope"
    assert detail(client.get("/definitions/nope/workloads"), 404) == "Definition not found: nope"
    assert detail(client.get(f"/workloads/{UNKNOWN}"), 404) == f"Workload not found: {UNKNOWN}"
    assert detail(client.get("/tasks/nope"), 404) == "Task not found: nope"
    assert detail(client.post("/tasks/batch", json={"task_ids": ["nope"]}), 404) == "Task not found: nope"
    body = {"solution": raw_solution(definition="nope")}
    assert detail(client.post("/evaluate", json=body), 400) == "Definition not found: nope"


def test_what_is_no_solution_is_refused(client: httpx.Client) -> None:
    wrong: list[Json] = [
        {},
        {"solution": {}},
        {"solution": raw_solution(spec={"language": "cobol"})},
        {"solution": None},
    ]
    for body in wrong:
        detail(client.post("/evaluate", json=body), 422)
    detail(client.post("/tasks/batch", json={}), 422)
    detail(client.get("/tasks/x", params={"timeout": 3601}), 422)
    detail(client.get("/tasks/x", params={"timeout": -1}), 422)


def test_an_evaluation_from_its_request_to_its_traces(client: httpx.Client) -> None:
    accepted = evaluate(client, "PASSED 2.0", "whole")
    assert accepted.keys() == {"task_id", "normalized_solution_name"}
    assert re.fullmatch("[0-9a-f]{32}", accepted["task_id"])
    told = result(client, accepted["task_id"])
    assert told.keys() == {"task_id", "status", "definition", "solution", "traces", "error"}
    assert (told["status"], told["definition"], told["error"]) == ("completed", DEFINITION, None)
    assert told["solution"] == accepted["normalized_solution_name"]
    assert [trace["workload"]["uuid"] for trace in told["traces"]] == UUIDS[:4]
    for trace in told["traces"]:
        assert (trace["definition"], trace["solution"]) == (DEFINITION, told["solution"])
        assert trace["evaluation"]["status"] == "PASSED"


@pytest.mark.parametrize(
    "verdict",
    ["COMPILE_ERROR", "RUNTIME_ERROR", "TIMEOUT", "INCORRECT_SHAPE", "INCORRECT_NUMERICAL", "INCORRECT_DTYPE"],
)
def test_completed_means_that_it_ran_not_that_it_passed(client: httpx.Client, verdict: str) -> None:
    told = result(client, evaluate(client, verdict, verdict)["task_id"])
    assert told["status"] == "completed"
    assert told["traces"][0]["evaluation"]["status"] == verdict


def test_one_name_for_several_sources_is_made_unique(client: httpx.Client) -> None:
    names = set()
    for salt in ("a", "b", "c"):
        body = {"solution": raw_solution(name="same", source=scripted("PASSED", f"name {salt}"))}
        names.add(client.post("/evaluate", json=body).json()["normalized_solution_name"])
    assert len(names) == 3


def test_the_same_solution_three_times(client: httpx.Client) -> None:
    tasks = [evaluate(client, "PASSED", "thrice")["task_id"] for _ in range(3)]
    assert len(set(tasks)) == 3
    told = client.post("/tasks/batch", json={"task_ids": tasks, "timeout": 60}).json()
    assert [each["task_id"] for each in told] == tasks
    for each in told:
        assert each["status"] == "completed"
        assert each["traces"][0]["evaluation"]["status"] == "PASSED"


def test_some_workloads_only_and_unknown_ones_left_out(client: httpx.Client) -> None:
    task = evaluate(client, "PASSED", "some", [UUIDS[2], UNKNOWN, UUIDS[0], HIDDEN])["task_id"]
    traces = result(client, task)["traces"]
    assert sorted(trace["workload"]["uuid"] for trace in traces) == [UUIDS[0], UUIDS[2]]


@pytest.mark.parametrize("uuids", [[], [UNKNOWN], ["nonexistent_uuid"]])
def test_no_workload_at_all_is_a_task_that_fails(client: httpx.Client, uuids: list[str]) -> None:
    told = result(client, evaluate(client, "PASSED", "none", uuids)["task_id"])
    assert told["status"] == "failed"
    assert "No workloads found" in told["error"]
    assert told["traces"] is None


def test_a_batch_keeps_order_and_duplicates(client: httpx.Client) -> None:
    first, second = (evaluate(client, "PASSED", salt)["task_id"] for salt in ("first", "second"))
    asked = [second, first, second]
    told = client.post("/tasks/batch", json={"task_ids": asked, "timeout": 60}).json()
    assert [each["task_id"] for each in told] == asked
    assert told[0] == told[2]
    assert told[1] == result(client, first, 0)
    assert client.post("/tasks/batch", json={"task_ids": [], "timeout": 0}).json() == []
    assert detail(client.post("/tasks/batch", json={"task_ids": [first, "nope"]}), 404) == "Task not found: nope"


def test_a_long_poll_ends_when_the_task_does_or_its_time_is_over(client: httpx.Client) -> None:
    task = evaluate(client, "PASSED", "slow", [UUIDS[0]], "# sleep: 4")["task_id"]
    at_once = result(client, task, 0)
    assert at_once["status"] in ("pending", "running")
    assert at_once["traces"] is None
    start = time.monotonic()
    early = result(client, task, 0.3)
    assert early["status"] in ("pending", "running")
    assert 0.25 < time.monotonic() - start < 3
    assert result(client, task, 3600)["status"] == "completed"
    assert time.monotonic() - start < 30


def test_a_stranger_can_t_stop_it(client: httpx.Client) -> None:
    assert client.post("/shutdown").status_code in (404, 405)
    assert client.get("/health").status_code == 200


def test_the_public_package_reads_what_it_is_sent(client: httpx.Client, public: PublicPackage) -> None:
    def read(model: str, record: Any) -> Json:
        answer = public.ask(model=model, text=json.dumps(record))
        assert answer["accepted"], (model, answer)
        found: Json = json.loads(answer["written"])
        return found

    read("Definition", client.get(f"/definitions/{DEFINITION}").json())
    for each in client.get(f"/definitions/{DEFINITION}/workloads").json():
        read("Workload", each)
    for verdict in ("PASSED 2.0", "INCORRECT_NUMERICAL", "RUNTIME_ERROR"):
        for trace in result(client, evaluate(client, verdict, f"package {verdict}")["task_id"])["traces"]:
            assert read("Trace", trace)["evaluation"]["status"] == trace["evaluation"]["status"]


def test_a_solution_as_the_public_package_writes_it(client: httpx.Client, public: PublicPackage) -> None:
    raw = raw_solution(source=scripted("PASSED", "theirs"))
    written = json.loads(public.ask(model="Solution", text=json.dumps(raw))["written"])
    reply = client.post("/evaluate", json={"solution": written})
    assert result(client, reply.json()["task_id"])["status"] == "completed"
