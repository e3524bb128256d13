"""Input that parsers and databases choke on is refused in words, wherever it is put; it never is our fault."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from httpx2 import Response

from tests.builders import raw_definition, raw_workload
from tests.leaderboard.populated import Site
from tests.leaderboard.scripted_owner import MODEL
from tests.leaderboard.world import DEFINITION, UUIDS, World, scripted, submission

BODIES = ("/api/v1/submissions", "/api/v1/proposals", "/api/v1/events", "/evaluate", "/tasks/batch")
TEXTS = {"NUL": "a\0b", "control": "a\x1b[2Jb", "long": "a" * 5000, "not ASCII": "Ω≈ç√\U0001f600", "dots": "../../etc"}
LISTS = (
    "/api/v1/definitions",
    f"/api/v1/definitions/{DEFINITION}/workloads",
    "/api/v1/solutions",
    "/api/v1/authors",
    "/api/v1/traces",
    "/api/v1/submissions",
    "/api/v1/proposals",
    "/api/v1/leaderboard",
    f"/api/v1/leaderboard/history?definition={DEFINITION}",
)
PLACES = (
    "/api/v1/definitions/{}",
    "/api/v1/definitions/{}/workloads",
    "/api/v1/definitions/{}/ratios?device_model=x",
    "/api/v1/authors/{0}/progress?device_model={0}",
    "/api/v1/editions/{}",
    "/api/v1/solutions/{}",
    "/api/v1/submissions/{}",
    "/api/v1/submissions/{}/events",
    "/api/v1/traces?solution={0}&author={0}&workload={0}&submission={0}",
    "/api/v1/leaderboard?device_model={0}&definition={0}&op_type={0}",
    "/api/v1/apply-table?device_model={0}&arch={0}",
    "/api/v1/export/traces.parquet?definition={}",
    "/definitions/{}",
    "/definitions/{}/workloads",
    "/workloads/{}",
    "/tasks/{}",
)


def refused(reply: Response, *statuses: int) -> None:
    assert reply.status_code in statuses, (reply.status_code, reply.text)
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json()["status"] == reply.status_code


def raw(world: World, path: str, body: bytes, content_type: str = "application/json") -> Response:
    return world.client.post(path, content=body, headers={**world.headers("alice"), "Content-Type": content_type})


def evidence(**told: Any) -> dict[str, Any]:
    return {"solution_hash": "0" * 64, "kind": "regressed", "evidence": told}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_text_in_a_path_or_a_query(site: Site, text: str) -> None:
    from urllib.parse import quote

    for place in PLACES:
        reply = site.world.get(place.format(quote(text, safe="")))
        assert reply.status_code in (200, 404, 422), (place, reply.text)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[1", b"null", b"[]", b'"x"', b"1e999", b"NaN", b"{}}"])
@pytest.mark.parametrize("path", BODIES)
def test_a_body_that_is_no_such_object(site: Site, path: str, body: bytes) -> None:
    refused(raw(site.world, path, body), 400, 422)


@pytest.mark.parametrize("path", BODIES)
def test_a_body_that_is_too_deep_or_a_number_that_is_too_long(site: Site, path: str) -> None:
    for inner in (b"[" * 90_000 + b"]" * 90_000, b"9" * 5000):
        refused(raw(site.world, path, b'{"solution":' + inner + b',"evidence":{"a":' + inner + b"}}"), 400, 422)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_body_that_does_not_say_that_it_is_json(site: Site, path: str, kind: str) -> None:
    """Which is what a page elsewhere can have a browser send without asking first."""
    refused(raw(site.world, path, json.dumps(submission(scripted("PASSED"))).encode(), kind), 422)


@pytest.mark.parametrize("path", ["/api/v1/submissions", "/evaluate"])
def test_of_the_same_key_twice_the_last_counts(site: Site, path: str) -> None:
    body = json.dumps(submission(scripted("PASSED")))
    reply = raw(site.world, path, body.replace('{"solution":', '{"solution": 1, "solution":', 1).encode())
    assert reply.status_code in (200, 202), reply.text


@pytest.mark.parametrize("text", ["\\ud800", "\\udfff\\ud800", "\\u0000"])
def test_text_that_no_database_can_store(site: Site, text: str) -> None:
    """In any field that is free text: it is refused, or kept as it is."""
    accepted = site.world.submit(scripted("PASSED 2.0"), name="fine")["solution"]["hash"]
    bodies = {
        "/api/v1/submissions": submission(scripted("PASSED"), name="@"),
        "/evaluate": {**submission(scripted("PASSED")), "workload_uuids": ["@"]},
        "/api/v1/proposals": {"definition": DEFINITION, "workloads": [raw_workload(uuid="new")], "why": "@"},
        "/api/v1/events": {**evidence(host="@", more={"@": ["@"]}), "solution_hash": accepted},
        "/tasks/batch": {"task_ids": ["@"]},
    }
    bodies["/evaluate"]["solution"]["definition"] = "@"
    extra = submission(scripted("PASSED", "extra"))
    extra["solution"]["x_note"] = {"@": ["@"]}
    for path, body in [*bodies.items(), ("/api/v1/submissions", extra)]:
        reply = raw(site.world, path, json.dumps(body).replace("@", text).encode())
        assert reply.status_code in (200, 201, 202, 400, 404, 422), (path, reply.text)
        reply.json()
    site.world.get(f"/api/v1/solutions/{accepted}").json()


def test_numbers_that_json_does_not_have_are_told_as_text(site: Site) -> None:
    accepted = site.world.submit(scripted("PASSED 2.0"))["solution"]["hash"]
    body = json.dumps({**evidence(ratio=float("nan")), "solution_hash": accepted})
    reply = raw(site.world, "/api/v1/events", body.encode())
    assert reply.json()["evidence"] == {"ratio": "NaN"}
    assert site.world.get(f"/api/v1/solutions/{accepted}").json()["reports"][-1]["evidence"] == {"ratio": "NaN"}


def test_evidence_that_is_deep_is_refused_and_a_long_number_is_kept(site: Site) -> None:
    accepted = site.world.submit(scripted("PASSED 2.0"))["solution"]["hash"]
    deep = json.dumps(evidence(a="@")).replace('"@"', "[" * 400 + "]" * 400).replace("0" * 64, accepted)
    refused(raw(site.world, "/api/v1/events", deep.encode()), 422)
    long = {**evidence(a=10**300), "solution_hash": accepted}
    assert site.world.post("/api/v1/events", long).json()["evidence"] == {"a": 10**300}


@pytest.mark.parametrize("path", LISTS)
def test_a_cursor_that_no_page_gave(site: Site, path: str) -> None:
    separator = "&" if "?" in path else "?"
    places: list[Any] = [
        [1 << 70],
        [-1],
        ["\ud800"],
        ["a\0"],
        [True],
        [None],
        [[]],
        {},
        7,
        "x",
        [1.5],
        [1, 1],
        ["a", "b"],
    ]
    places += [["0001-01-01T00:00:00+14:00", "x"], ["9999-12-31T23:59:59-14:00", "x"], [1 << 61, 1 << 61]]
    cursors = [base64.urlsafe_b64encode(json.dumps(place).encode()).decode() for place in places]
    for cursor in [*cursors, "", "%00", "é", "=", "e30", "[" * 500, "x" * 601]:
        reply = site.world.get(f"{path}{separator}device_model={MODEL}&cursor={cursor}")
        assert reply.status_code in (200, 422), (cursor, reply.text)


@pytest.mark.parametrize("number", ["0", "-1", str(1 << 62), str(1 << 64), "9" * 4000, "1e3", "x"])
def test_a_proposal_s_number(site: Site, number: str) -> None:
    refused(site.world.post(f"/api/v1/proposals/{number}/decision", {"accept": True}, "root"), 404, 422)


@pytest.mark.parametrize("wait", ["nan", "inf", "-1", "1e400", "3601", "x"])
def test_a_time_to_wait(site: Site, wait: str) -> None:
    number = site.world.submit(scripted("PASSED"))["id"]
    refused(site.world.get(f"/api/v1/submissions/{number}?wait_s={wait}", "alice"), 422)
    refused(site.world.get(f"/tasks/{number}?timeout={wait}", "alice"), 422)


def test_a_name_that_no_file_can_have_or_that_reads_like_a_hash(site: Site) -> None:
    """A judge would fail at the one, and an administrator could not say which solution is meant with the other."""
    for name in ("../x", "a/b", " a", ".", "a\nb", "é" * 121, "0123456789abcdef" * 4):
        reply = site.world.post("/api/v1/submissions", submission(scripted("PASSED"), name=name))
        refused(reply, 422)
        assert reply.json()["errors"][0]["field"] == "solution.name"
    long = "é" * 120
    site.world.submit(scripted("PASSED"), name=long)
    second = site.world.submit(scripted("PASSED", "other"), name=long)["solution"]["name"]
    assert len(second.encode()) <= 240


def test_a_body_of_very_many_values_is_refused_before_each_is_found_fault_with(site: Site) -> None:
    body = submission(scripted("PASSED"))
    body["solution"]["sources"] = [{}] * 100_000
    for path in ("/api/v1/submissions", "/evaluate"):
        reply = site.world.post(path, body)
        refused(reply, 422)
        assert len(reply.content) < 5000
    body["solution"]["sources"] = [{}] * 5000
    assert len(site.world.post("/evaluate", body).content) < 20_000


def test_a_proposal_that_could_not_be_judged_is_refused(site: Site) -> None:
    wrong_axes = raw_workload(uuid="new", axes={"rows": 4})
    bodies = {
        "workloads.0.axes": {"definition": DEFINITION, "workloads": [wrong_axes]},
        "workloads.0.uuid": {"definition": DEFINITION, "workloads": [raw_workload(uuid=UUIDS[0])]},
        "workloads.1.uuid": {"definition": DEFINITION, "workloads": [raw_workload(uuid="new")] * 2},
        "workloads": {"definition": DEFINITION},
        "definition": {"definition": raw_definition(name="../x")},
    }
    for field, body in bodies.items():
        reply = site.world.post("/api/v1/proposals", body)
        refused(reply, 422)
        assert reply.json()["errors"][0]["field"] == field
    whole = {"definition": raw_definition(name="new"), "workloads": [wrong_axes]}
    refused(site.world.post("/api/v1/proposals", whole), 422)
    assert site.world.post("/api/v1/proposals", {"definition": raw_definition(name="new")}).status_code == 201
