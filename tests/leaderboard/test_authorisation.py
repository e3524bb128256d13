"""Who may do what: every route of the service, asked by everybody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from fastapi.routing import iter_route_contexts
from fastapi.testclient import TestClient
from sqlalchemy import update

from kernelmill.leaderboard import leases, moderation, tokens
from kernelmill.leaderboard.api.app import create_app
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.db.types import now
from kernelmill.leaderboard.settings import Settings
from tests.builders import raw_workload
from tests.leaderboard.populated import Site, definition_proposal
from tests.leaderboard.scripted_owner import MODEL
from tests.leaderboard.world import DEFINITION, UUIDS, World, scripted, submission

EVERYBODY = (
    "nobody",
    "reader",
    "alice",
    "bob",
    "root",
    "submit only",
    "banned",
    "expired",
    "revoked",
    "unknown",
    "basic",
)
INVALID = ("expired", "revoked", "unknown", "basic")
OPEN = "whoever asks, however"
READ = "who reads"
OWNER = "its owner and administrators"
SUBMIT = "who submits"
ADMIN = "administrators"
MATRIX = {
    "GET /openapi.json": OPEN,
    "GET /healthz": OPEN,
    "GET /readyz": OPEN,
    "GET /metrics": OPEN,
    "GET /": OPEN,
    "GET /health": OPEN,
    "GET /api/v1/definitions": READ,
    "GET /api/v1/definitions/{name}": READ,
    "GET /api/v1/definitions/{name}/workloads": READ,
    "GET /api/v1/definitions/{name}/ratios": READ,
    "GET /api/v1/editions": READ,
    "GET /api/v1/editions/{name}": READ,
    "GET /api/v1/solutions": READ,
    "GET /api/v1/solutions/{hash}": OWNER,
    "GET /api/v1/authors": READ,
    "GET /api/v1/authors/{name}/progress": READ,
    "GET /api/v1/traces": READ,
    "GET /api/v1/leaderboard": READ,
    "GET /api/v1/leaderboard/history": READ,
    "GET /api/v1/apply-table": READ,
    "GET /api/v1/devices": READ,
    "GET /api/v1/submissions": READ,
    "POST /api/v1/submissions": SUBMIT,
    "GET /api/v1/submissions/{id}": OWNER,
    "DELETE /api/v1/submissions/{id}": SUBMIT,
    "GET /api/v1/submissions/{id}/events": OWNER,
    "GET /api/v1/proposals": READ,
    "POST /api/v1/proposals": SUBMIT,
    "POST /api/v1/proposals/{id}/decision": ADMIN,
    "POST /api/v1/events": SUBMIT,
    "GET /api/v1/export/traces.parquet": READ,
    "GET /api/v1/export/dataset.tar.gz": READ,
    "GET /definitions": READ,
    "GET /definitions/{name}": READ,
    "GET /definitions/{name}/workloads": READ,
    "GET /workloads/{uuid}": READ,
    "POST /evaluate": SUBMIT,
    "GET /tasks/{task_id}": OWNER,
    "POST /tasks/batch": OWNER,
}
ALLOWED = {
    OPEN: set(EVERYBODY),
    READ: {"nobody", "reader", "alice", "bob", "root", "banned"},
    OWNER: {"alice", "root"},
    SUBMIT: {"alice", "bob", "root", "submit only"},
    ADMIN: {"root"},
}


@pytest.fixture(scope="module")
def headers(site: Site) -> dict[str, dict[str, str]]:
    """What each of them sends."""
    world = site.world
    made = {name: world.token(name, "submit,read") for name in ("banned", "expired", "revoked")}
    made |= {"submit only": world.token("submit_only", "submit"), "unknown": "km_" + "A" * 43}
    with world.database.write() as connection:
        moderation.ban(connection, "banned", by="test")
        number = {row["author"]: row["id"] for row in tokens.listed(connection)}
        tokens.revoke(connection, number["revoked"], by="test")
        connection.execute(
            update(t.Token).where(t.Token.id == number["expired"]).values(expires_at=now() - timedelta(seconds=1))
        )
    sent = {name: {"Authorization": f"Bearer {token}"} for name, token in {**world.tokens, **made}.items()}
    return {**sent, "nobody": {}, "basic": {"Authorization": "Basic cm9vdDpyb290"}}


def routes() -> Iterator[str]:
    app = create_app(Settings(), Database("postgresql://nobody@/nothing"))
    for context in iter_route_contexts(app.routes):
        route = context.route
        path = getattr(context, "path", None) or getattr(route, "path", "?")
        yield from (
            f"{method} {path}" for method in sorted(getattr(route, "methods", None) or ["?"]) if method != "HEAD"
        )


def request_of(site: Site, route: str, salt: str) -> tuple[str, str, Any]:
    """Method, path and body that would do it, on what is alice's alone."""
    method, path = route.split(" ")
    things = site.things
    names = {"definitions": DEFINITION, "authors": "alice"}
    edition = site.world.get("/api/v1/editions").json()["items"][0]["name"]
    path = path.format(
        name=next((name for part, name in names.items() if part in path), edition),
        hash=things.private_hash,
        id=site.world.submit(scripted("PASSED", salt), ranked=False)["id"] if method == "DELETE" else things.private,
        task_id=things.private,
        uuid=UUIDS[0],
    )
    if route.endswith("/decision"):
        proposal = site.world.post("/api/v1/proposals", definition_proposal(f"x{salt}"))
        path = f"/api/v1/proposals/{proposal.json()['id']}/decision"
    if path.endswith(("/ratios", "/progress")):
        path += f"?device_model={MODEL}"
    if path.endswith("/history"):
        path += f"?definition={DEFINITION}"
    report = {"solution_hash": things.public_hash, "kind": "withdrawn", "evidence": {}}
    bodies = {
        "/api/v1/submissions": submission(scripted("PASSED", salt)),
        "/api/v1/proposals": {"definition": DEFINITION, "workloads": [raw_workload(uuid=f"u{salt}")]},
        "/api/v1/events": report,
        "/evaluate": submission(scripted("PASSED", salt)),
        "/tasks/batch": {"task_ids": [things.private]},
    }
    return method, path, {"accept": False} if route.endswith("/decision") else bodies.get(path)


def expected(route: str, who: str) -> int:
    """0 stands for any success."""
    if who in ALLOWED[MATRIX[route]] and not (route.startswith("DELETE") and who in ("bob", "submit only")):
        return 0
    if who in INVALID or (who == "nobody" and MATRIX[route] in (SUBMIT, ADMIN)):
        return 401
    if MATRIX[route] == OWNER and who != "submit only":
        return 404
    # To those who may not know of it, what they may not cancel is not there.
    return 404 if route.startswith("DELETE") and who in ("bob", "submit only") else 403


def test_the_matrix_has_every_route() -> None:
    assert sorted(routes()) == sorted(MATRIX)


@pytest.mark.parametrize("who", EVERYBODY)
def test_each_route_admits_whom_it_should(site: Site, headers: dict[str, dict[str, str]], who: str) -> None:
    for number, route in enumerate(MATRIX):
        method, path, body = request_of(site, route, f"{who}-{number}")
        reply = site.world.client.request(method, path, json=body, headers=headers[who])
        wanted = expected(route, who)
        got = reply.status_code if reply.status_code >= 300 else 0
        assert got == wanted, (route, reply.status_code, wanted, reply.text[:300])
        assert (reply.status_code == 401) == (reply.headers.get("www-authenticate") == "Bearer"), route


@pytest.mark.parametrize(
    "sent", ["", "Bearer", "Bearer ", "bearer km_x", "Bearer km_x km_y", "Token x", "é", "Bearer é"]
)
def test_a_header_that_is_no_token_is_told_so_even_where_none_is_needed(site: Site, sent: str) -> None:
    reply = site.world.client.get("/api/v1/definitions", headers={b"authorization": sent.encode()})
    assert reply.status_code == 401, reply.text


def test_what_is_private_is_in_no_list_of_others(site: Site) -> None:
    """Nor does a list's length, or a count, tell of it."""
    own = {"private_one", site.things.private, site.things.private_hash}
    lists = [
        f"/api/v1/{name}?limit=500" for name in ("solutions", "submissions", "traces", "leaderboard", "apply-table")
    ]
    lists += [f"/api/v1/traces?submission={site.things.private}", "/api/v1/traces?solution=private_one"]
    lists += [
        f"/api/v1/leaderboard?definition={DEFINITION}",
        f"/api/v1/definitions/{DEFINITION}/ratios?device_model={MODEL}",
        f"/api/v1/authors/alice/progress?device_model={MODEL}",
    ]
    for path in lists:
        for who in (None, "reader", "bob"):
            text = site.world.get(path, who).text
            assert not any(name in text for name in own), (path, who)
    assert [item["solutions"] for item in site.world.get("/api/v1/definitions").json()["items"]][:1] == [
        len(
            [
                item
                for item in site.world.get("/api/v1/solutions?limit=500").json()["items"]
                if item["definition"] == DEFINITION
            ]
        )
    ]
    for who in ("alice", "root"):
        assert "private_one" in site.world.get("/api/v1/solutions?limit=500", who).text
        assert site.world.get("/api/v1/traces?solution=private_one", who).json()["items"]


def test_an_author_that_submits_the_source_of_a_private_solution_learns_nothing_of_the_run(site: Site) -> None:
    """It is judged for them anew."""
    mine = site.world.submit(scripted("PASSED 3.0", "secret"), "bob", ranked=False)
    assert mine["duplicate_of"] is None
    assert mine["state"] == "queued"


def test_a_run_s_reason_does_not_name_a_hidden_workload(world: World) -> None:
    """A judge that fails on one says so in words that name it; those are for the log."""
    number = world.submit(scripted("PASSED"))["id"]
    lease = world.take()
    assert lease is not None
    with world.database.write() as connection:
        leases.retry(connection, lease, f"the baseline fails on workload {UUIDS[4]}", attempts=3)
    again = f"/api/v1/submissions/{number}"
    assert world.get(again).json()["reason"] == "the baseline fails on workload (hidden)"
    with world.database.write() as connection:
        connection.execute(update(t.Submission).values(not_before=None))
    lease = world.take()
    assert lease is not None
    with world.database.write() as connection:
        leases.finish(connection, lease, "failed", reason=f"the dataset's fault: workload {UUIDS[4]}")
    assert (
        UUIDS[4] not in world.get(again).text + world.get(f"{again}/events").text + world.get(f"/tasks/{number}").text
    )


def test_a_solution_that_was_taken_away_is_in_no_list(world: World) -> None:
    number = world.submit(scripted("PASSED 2.0"), name="gone")["id"]
    world.judge()
    world.refresh()
    with world.database.write() as connection:
        moderation.hide(connection, "gone", by="test")
    world.refresh()
    for path in (
        "/api/v1/traces",
        "/api/v1/solutions",
        "/api/v1/leaderboard",
        f"/api/v1/leaderboard?definition={DEFINITION}",
    ):
        for who in (None, "alice", "bob"):
            assert "gone" not in world.get(path, who).text, path
    assert world.get("/api/v1/solutions/gone").status_code == 404
    assert "gone" in world.get(f"/api/v1/traces?submission={number}", "root").text


def test_without_auth_everybody_on_this_host_may_do_everything(database: Database, world: World) -> None:
    app = create_app(Settings(auth=False, state=world.folder), database)
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        number = client.post("/api/v1/submissions", json=submission(scripted("PASSED"), ranked=False)).json()["id"]
        assert client.get(f"/api/v1/submissions/{number}").json()["author"] == "whoever", "as an administrator may"
        proposal = client.post("/api/v1/proposals", json=definition_proposal("new")).json()["id"]
        assert client.post(f"/api/v1/proposals/{proposal}/decision", json={"accept": True}).status_code == 200
        for host in ("localhost", "localhost:8000", "LOCALHOST", "127.0.0.1", "[::1]:8000"):
            assert client.get("/api/v1/definitions", headers={"Host": host}).status_code == 200, host
        for host in (
            "evil.example",
            "testserver",
            "127.0.0.1.evil.example",
            "localhost.evil.example:8000",
            "",
            "x@127.0.0.1",
        ):
            reply = client.post("/evaluate", json=submission(scripted("PASSED")), headers={"Host": host})
            assert reply.status_code in (400, 421), host
        wrong = {"Authorization": "Bearer km_wrong"}
        assert client.get("/api/v1/definitions", headers=wrong).status_code == 401


def test_without_auth_a_page_elsewhere_can_t_submit_through_a_browser(database: Database, world: World) -> None:
    """A browser sends these without asking the service first; whatever else it would ask about, and be refused."""
    app = create_app(Settings(auth=False, state=world.folder), database)
    body = submission(scripted("PASSED"))
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        for kind in (
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "text/plain;application/json",
        ):
            headers = {"Origin": "http://evil.example", "Content-Type": kind}
            assert client.post("/evaluate", content=json.dumps(body), headers=headers).status_code == 422, kind
        asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
        reply = client.options("/evaluate", headers=asked)
        assert "access-control-allow-origin" not in reply.headers
        assert client.get("/api/v1/submissions").json()["items"] == []
