"""How much, how often and what is told of it: bodies, rates, waiters, pages, caches, headers, and faults of ours."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from kernelmill.leaderboard import events, views
from kernelmill.leaderboard.api.app import create_app
from kernelmill.leaderboard.api.watchman import HEADERS
from kernelmill.leaderboard.db import engine
from kernelmill.leaderboard.db.engine import Database, DatabaseUnreachable
from kernelmill.leaderboard.log import JsonLines
from tests.leaderboard.live import served
from tests.leaderboard.populated import Site
from tests.leaderboard.scripted_owner import MODEL
from tests.leaderboard.test_hostile_input import refused
from tests.leaderboard.world import DEFINITION, World, scripted, submission, told

MOST = 10_000
CACHEABLE = (
    "/api/v1/definitions",
    f"/api/v1/definitions/{DEFINITION}",
    f"/api/v1/definitions/{DEFINITION}/workloads",
    f"/api/v1/definitions/{DEFINITION}/ratios?device_model={MODEL}",
    "/api/v1/editions",
    "/api/v1/editions/{edition}",
    "/api/v1/solutions",
    "/api/v1/solutions/public_one",
    "/api/v1/authors",
    "/api/v1/traces",
    "/api/v1/leaderboard",
    f"/api/v1/leaderboard?definition={DEFINITION}",
    f"/api/v1/leaderboard/history?definition={DEFINITION}",
    "/api/v1/apply-table",
    "/api/v1/devices",
    "/api/v1/submissions",
    "/api/v1/submissions/{public}",
    "/api/v1/proposals",
    f"/api/v1/authors/alice/progress?device_model={MODEL}",
)


def limited(world: World, **settings: Any) -> TestClient:
    """The same service with other settings."""
    app = create_app(world.settings.model_copy(update=settings), world.database)
    return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


def path_of(site: Site, path: str) -> str:
    edition = site.world.get("/api/v1/editions").json()["items"][0]["name"]
    return path.format(edition=edition, public=site.things.public)


def test_a_body_s_size_as_declared_and_as_it_comes(site: Site) -> None:
    """A chunked body declares nothing: it is read up to the limit, and no further."""
    body = json.dumps(submission(scripted("PASSED", "x" * 2 * MOST))).encode()
    sent = []

    def chunks() -> Iterator[bytes]:
        for start in range(0, len(body), 1000):
            sent.append(start)
            yield body[start : start + 1000]

    for token in (True, False):
        headers = {"Content-Type": "application/json", **(site.world.headers("alice") if token else {})}
        with limited(site.world, max_body_bytes=MOST) as client:
            for content in (body, chunks()):
                reply = client.post("/api/v1/submissions", content=content, headers=headers)
                refused(reply, 413)
                assert f"{MOST} bytes" in reply.json()["detail"]
                assert reply.json()["request_id"] == reply.headers["x-request-id"]
            fitting = {"Content-Length": str(MOST), **headers}
            assert client.post("/api/v1/submissions", content=b" " * MOST, headers=fitting).status_code in (401, 422)


def test_a_body_that_goes_on_is_not_read_to_its_end(site: Site) -> None:
    """At a real port, where the client is still sending."""
    taken = []

    def endless() -> Iterator[bytes]:
        for number in range(100_000):
            taken.append(number)
            yield b" " * 1000

    app = create_app(site.world.settings.model_copy(update={"max_body_bytes": MOST}), site.world.database)
    with served(app) as address:
        headers = {"Content-Type": "application/json", **site.world.headers("alice")}
        try:
            reply = httpx.post(f"{address}/api/v1/submissions", content=endless(), headers=headers, timeout=20)
            assert reply.status_code == 413
        except httpx.TransportError:  # it hung up on us while we were sending
            pass
        assert httpx.get(f"{address}/healthz").status_code == 200
    assert len(taken) < 50_000


def test_a_rate_is_kept_for_each_author_and_each_address(site: Site) -> None:
    world = site.world
    with limited(world, read_rate="3/minute", write_rate="1/minute") as client:
        alice, bob, root = world.headers("alice"), world.headers("bob"), world.headers("root")
        for headers in ({}, alice):
            assert [client.get("/api/v1/devices", headers=headers).status_code for _ in range(4)] == [200] * 3 + [429]
        reply = client.get("/api/v1/devices", headers=alice)
        refused(reply, 429)
        assert 1 <= int(reply.headers["retry-after"]) <= 61
        assert client.get("/api/v1/devices", headers=bob).status_code == 200, "another's rate is not theirs"
        assert {client.get("/api/v1/devices", headers=root).status_code for _ in range(9)} == {200}
        body: dict[str, Any] = {"task_ids": []}
        assert [client.post("/tasks/batch", json=body, headers=bob).status_code for _ in range(2)] == [200, 429]
        assert client.get("/healthz").status_code == 200, "a probe is not counted"


def test_who_tries_tokens_is_counted_too(site: Site) -> None:
    with limited(site.world, read_rate="3/minute") as client:
        replies = [client.get("/api/v1/devices", headers={"Authorization": f"Bearer km_{n}"}) for n in range(5)]
        assert [reply.status_code for reply in replies] == [401, 401, 401, 429, 429]


def test_waiters_are_few_and_the_next_is_told_to_come_back(world: World) -> None:
    """A long poll, a task's, and a stream take a place each while they wait; who does not wait needs none."""
    number, other = (world.submit(scripted("PASSED", salt))["id"] for salt in ("one", "other"))
    api, headers = f"/api/v1/submissions/{number}", world.headers("alice")
    app = create_app(world.settings.model_copy(update={"max_waiters": 1}), world.database)
    with served(app) as address, httpx.Client(base_url=address, headers=headers, timeout=20) as client:
        waiting = threading.Thread(target=lambda: httpx.get(f"{address}{api}?wait_s=30", headers=headers, timeout=40))
        waiting.start()
        deadline = time.monotonic() + 10
        while "kernelmill_waiters 1.0" not in client.get("/metrics").text and time.monotonic() < deadline:
            time.sleep(0.02)
        for path in (f"{api}?wait_s=5", f"{api}/events", f"/tasks/{number}?timeout=5"):
            reply = client.get(path)
            assert reply.status_code == 429, path
            assert int(reply.headers["retry-after"]) >= 1
        assert client.post("/tasks/batch", json={"task_ids": [number], "timeout": 5}).status_code == 429
        assert client.get(api).status_code == client.get(f"/tasks/{number}").status_code == 200
        assert client.delete(api).status_code == 200
        waiting.join(20)
        with client.stream("GET", f"/api/v1/submissions/{other}/events") as stream:
            assert stream.status_code == 200
            assert next(stream.iter_lines()).startswith("id:")
        deadline = time.monotonic() + 20
        while "kernelmill_waiters 0.0" not in client.get("/metrics").text:
            assert time.monotonic() < deadline, "a stream that was left still has its place"
            time.sleep(0.05)


def pages(site: Site, path: str, limit: int) -> list[Any]:
    """Every item, a page at a time."""
    found: list[Any] = []
    separator, cursor = "&" if "?" in path else "?", ""
    while True:
        reply = site.world.get(f"{path}{separator}limit={limit}{cursor}", "root").json()
        assert len(reply["items"]) <= limit
        found += reply["items"]
        if reply["next"] is None:
            return found
        cursor = f"&cursor={reply['next']}"


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in CACHEABLE
        if path.rpartition("/")[2] in "definitions workloads solutions authors traces submissions proposals"
    ],
)
def test_small_pages_and_large_ones_hold_the_same(site: Site, path: str) -> None:
    assert pages(site, path, 1) == pages(site, path, 3) == pages(site, path, 500) != []


@pytest.mark.parametrize("limit", ["0", "-1", "501", "1e3", "x", str(1 << 70), ""])
def test_a_page_s_size(site: Site, limit: str) -> None:
    for path in CACHEABLE[:1] + CACHEABLE[6:7] + CACHEABLE[9:12]:
        refused(site.world.get(f"{path}{'&' if '?' in path else '?'}limit={limit}"), 422)


def test_a_board_s_pages(site: Site) -> None:
    path = f"/api/v1/leaderboard?definition={DEFINITION}&device_model={MODEL}&limit=2"
    first = site.world.get(path).json()["boards"][0]
    second = site.world.get(f"{path}&cursor={first['next']}").json()["boards"][0]
    whole = site.world.get(path.replace("=2", "=500")).json()["boards"][0]
    assert first["rows"] + second["rows"] == whole["rows"]
    assert (len(first["rows"]), second["next"], whole["next"]) == (2, None, None)
    refused(site.world.get(f"/api/v1/leaderboard?cursor={first['next']}"), 422)


@pytest.mark.parametrize("path", CACHEABLE)
def test_what_did_not_change_is_not_sent_again(site: Site, path: str) -> None:
    path = path_of(site, path)
    first = site.world.get(path)
    tag = first.headers["etag"]
    for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        again = site.world.get(path, headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag), known
    for other in (tag.strip('"'), f'"x{tag[1:]}', f'{tag[:-1]}x"', tag[1:8], '""', "x" * 5000):
        again = site.world.get(path, headers={"If-None-Match": other})
        assert (again.status_code, again.content) == (200, first.content), other
    assert "no-cache" in first.headers["cache-control"]
    assert "Authorization" in first.headers["vary"]


def test_every_route_that_could_be_cached_is(site: Site) -> None:
    """What has a tag says so in the document, and the other way round."""
    document = site.world.get("/openapi.json").json()["paths"]
    documented = {path for path, methods in document.items() if "304" in methods.get("get", {}).get("responses", {})}
    asked = {path.partition("?")[0].replace(DEFINITION, "{name}").replace("public_one", "{hash}") for path in CACHEABLE}
    names = {"{edition}": "{name}", "/alice/": "/{name}/", "{public}": "{id}"}
    for shown, name in names.items():
        asked = {path.replace(shown, name) for path in asked}
    assert documented == asked


def test_what_one_person_sees_is_kept_in_no_shared_cache(site: Site) -> None:
    for path in ("/api/v1/solutions", "/api/v1/traces", "/api/v1/submissions", "/api/v1/solutions/private_one"):
        assert site.world.get(path, "alice").headers["cache-control"].startswith("private"), path
    assert site.world.get(f"/tasks/{site.things.private}", "alice").headers["cache-control"].startswith("private")
    path = f"/api/v1/definitions/{DEFINITION}/workloads"
    assert site.world.get(path, "root").headers["etag"] != site.world.get(path, "alice").headers["etag"]


def test_long_answers_are_compressed_for_who_understands_it(site: Site) -> None:
    plain = site.world.get("/api/v1/traces", headers={"Accept-Encoding": "identity"})
    packed = site.world.get("/api/v1/traces", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(plain.content) / 2
    assert packed.content == plain.content
    stream = site.world.get(f"/api/v1/submissions/{site.things.public}/events", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in stream.headers, "an event must not wait for the next"


def guarded(reply: Response) -> None:
    assert all(reply.headers[name] == value for name, value in HEADERS.items()), reply.headers
    assert reply.headers["x-request-id"]


def test_every_answer_has_an_id_and_the_headers_that_browsers_obey(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("/", "/docs", "/api/v1/devices", "/nope", "/api/v1/submissions/nope", "/metrics"):
        guarded(site.world.get(path))
    guarded(site.world.get("/api/v1/devices", headers={"Authorization": "Bearer x"}))
    guarded(site.world.client.request("BREW", "/"))
    guarded(site.world.get("/api/v1/export/traces.parquet"))
    with limited(site.world, max_body_bytes=1) as client:
        guarded(client.post("/evaluate", content=b"{}"))
    monkeypatch.setattr(views, "see", lambda *_: 1 / 0)
    guarded(site.world.get(f"/api/v1/submissions/{site.things.public}"))


@pytest.mark.parametrize("given", ["abc-1.2_3", "x" * 64])
def test_a_request_s_id_is_echoed(site: Site, given: str) -> None:
    reply = site.world.get("/api/v1/definitions/nope", headers={"X-Request-ID": given})
    assert reply.headers["x-request-id"] == reply.json()["request_id"] == given


@pytest.mark.parametrize("given", ["", "x" * 65, "a b", 'a"b', "<b>", "a\tb"])
def test_an_id_that_could_spoil_a_log_is_replaced(site: Site, given: str) -> None:
    reply = site.world.get("/api/v1/definitions/nope", headers={"X-Request-ID": given})
    assert len(reply.headers["x-request-id"]) == 32
    assert reply.headers["x-request-id"] == reply.json()["request_id"] != given


def test_a_fault_of_ours_is_logged_and_not_told(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("secret of /srv/kernelmill/state")

    monkeypatch.setattr(views, "see", fail)
    reply = site.world.get(f"/api/v1/submissions/{site.things.public}")
    refused(reply, 500)
    assert not any(word in reply.text for word in ("secret", "/srv", "ZeroDivision", "Traceback", ".py"))
    record = next(record for record in caplog.records if record.name == "kernelmill.api")
    line = json.loads(JsonLines().format(record))
    assert line["request_id"] == reply.json()["request_id"]
    assert "ZeroDivisionError" in line["traceback"]


def test_a_database_that_is_away(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Every route that needs it says so, and when to come back; the process itself is well."""
    broken = Database("postgresql://somebody:pa55word@/nothing?host=/nonexistent&connect_timeout=1")
    with TestClient(create_app(site.world.settings, broken), raise_server_exceptions=False) as client:
        paths = [path_of(site, path) for path in CACHEABLE] + ["/readyz", "/metrics", "/health", "/definitions"]
        paths += ["/api/v1/export/traces.parquet", "/tasks/x", "/api/v1/submissions/x/events"]
        replies = [client.get(path) for path in paths]
        replies.append(client.post("/api/v1/submissions", json={}, headers=site.world.headers("alice")))
        for reply in replies:
            refused(reply, 503)
            assert int(reply.headers["retry-after"]) >= 1
            assert not any(word in reply.text for word in ("pa55word", "somebody", "nonexistent", "psycopg"))
        assert client.get("/healthz").status_code == client.get("/").status_code == 200
    assert "pa55word" not in caplog.text
    broken.close()


def test_a_stream_whose_database_goes_away_ends_and_can_be_resumed(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    number = world.submit(scripted("PASSED"))["id"]
    asked: list[int] = []

    def away(connection: Any, submission: str, last: int) -> list[Any]:
        asked.append(last)
        if len(asked) > 1:
            raise DatabaseUnreachable("gone")
        return kept(connection, submission, last)

    kept = events.after
    monkeypatch.setattr(events, "after", away)
    reply = world.get(f"/api/v1/submissions/{number}/events")
    assert [data for kind, data, _ in told(reply.text) if kind == "state"] == [{"state": "queued"}]
    assert "fault of ours" not in caplog.text


def test_metrics_tell_of_routes_and_not_of_paths(site: Site) -> None:
    """With their prefix, so that the two APIs are told apart; what is no route is one of them all."""
    with limited(site.world) as client:
        for path in (
            f"/api/v1/definitions/{DEFINITION}",
            "/definitions/a",
            "/definitions/b",
            "/definitions/api/v1",
            "/x",
        ):
            client.get(path)
        client.request("BREW", "/definitions/a")
        lines = client.get("/metrics").text.splitlines()
    counted = [line for line in lines if line.startswith("kernelmill_requests_total")]
    assert counted == [
        'kernelmill_requests_total{method="GET",route="/api/v1/definitions/{name}",status="200"} 1.0',
        'kernelmill_requests_total{method="GET",route="/definitions/{name}",status="404"} 2.0',
        'kernelmill_requests_total{method="GET",route="none",status="404"} 2.0',
        'kernelmill_requests_total{method="other",route="/definitions/{name}",status="405"} 1.0',
    ]


def test_no_secret_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Over a whole submission, and whatever goes wrong with a token."""
    caplog.set_level(logging.DEBUG)
    secrets = list(world.tokens.values())
    number = world.submit(scripted("PASSED 2.0"), name="logged")["id"]
    world.judge()
    world.get(f"/api/v1/submissions/{number}/events", "alice")
    world.client.delete(f"/api/v1/submissions/{number}", headers=world.headers("alice"))
    wrong = "km_" + "wrong" * 9
    world.get("/api/v1/devices", headers={"Authorization": f"Bearer {wrong}"})
    world.get(f"/api/v1/devices?token={wrong}&cursor={wrong}", "reader")
    world.post("/api/v1/submissions", {"token": wrong}, "alice")
    lines = [
        JsonLines().format(record) for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))
    ]
    assert any(json.loads(line).get("route") == "/api/v1/submissions" for line in lines), "requests are logged"
    for secret in [*secrets, wrong, *(token.removeprefix("km_") for token in secrets)]:
        assert not any(secret in line for line in lines)


def test_who_waits_for_other_writers_has_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "BUSY_S", 0.1)
    database = Database(f"sqlite:///{tmp_path / 'busy.db'}")
    with (
        database.write(),
        ThreadPoolExecutor(1) as pool,
        pytest.raises(DatabaseUnreachable, match="others write"),
    ):
        pool.submit(lambda: database.write().__enter__()).result(timeout=30)
    with database.write() as connection:
        assert connection.exec_driver_sql("select 1").scalar() == 1
    database.close()
