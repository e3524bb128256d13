"""What a cookie is good for, and what not: pages, tokens of one's own, settings."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from pydantic import SecretStr

from kernelmill.leaderboard.api import signin
from kernelmill.leaderboard.api.app import create_app
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.settings import Settings
from kernelmill.trace_schema.errors import InternalError
from tests.leaderboard.front import PUBLIC, SECRET, Front, Person
from tests.leaderboard.oidc_provider import OidcProvider
from tests.leaderboard.world import scripted, submission


def test_what_changes_something_needs_the_pages_token(front: Front) -> None:
    person = front.person()
    body = submission(scripted("PASSED 2.0", "x"))
    for headers in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": "guessed"}):
        assert person.browser.post("/api/v1/submissions", json=body, headers=headers).status_code == 403
    reply = person.post("/api/v1/submissions", body)
    assert reply.status_code == 202, reply.text
    assert reply.json()["author"] == "carol"
    other = front.person("2", "dave")
    assert person.browser.post("/api/v1/submissions", json=body, headers=other.csrf).status_code == 403


def test_a_token_in_the_request_makes_the_cookie_count_for_nothing(front: Front) -> None:
    person = front.person()
    headers = front.world.headers("bob")
    assert person.browser.get("/auth/me", headers=headers).json() == {
        "name": "bob",
        "scopes": ["read", "submit"],
        "is_banned": False,
        "csrf_token": None,
    }
    assert person.browser.get("/auth/me", headers={"Authorization": "Bearer km_wrong"}).status_code == 401
    body = submission(scripted("PASSED 2.0", "y"))
    assert person.browser.post("/api/v1/submissions", json=body, headers=headers).json()["author"] == "bob"
    for method, path in (("POST", "/auth/logout"), ("POST", "/auth/tokens"), ("GET", "/auth/tokens")):
        reply = person.browser.request(method, path, json={"scopes": ["read"]}, headers={**headers, **person.csrf})
        assert reply.status_code == 403, path


def test_logout(front: Front) -> None:
    person = front.person()
    assert person.browser.post("/auth/logout").status_code == 403
    assert person.browser.get("/auth/me").status_code == 200
    assert person.post("/auth/logout").status_code == 204
    assert person.browser.get("/auth/me").status_code == 401
    assert person.post("/auth/logout").status_code == 401


def test_own_tokens(front: Front) -> None:
    person, other = front.person(), front.person("2", "dave")
    made = person.make_token("submit")
    headers = {"Authorization": f"Bearer {made['token']}"}
    body = submission(scripted("PASSED 2.0", "t"))
    reply = front.browser().post("/api/v1/submissions", json=body, headers=headers)
    assert (reply.status_code, reply.json()["author"]) == (202, "carol")
    listed = person.browser.get("/auth/tokens")
    assert made["token"] not in listed.text
    assert listed.headers["cache-control"] == "no-store"
    assert [(each["id"], each["scopes"]) for each in listed.json()["items"]] == [(made["id"], "submit")]
    assert other.browser.get("/auth/tokens").json()["items"] == []
    path = f"/auth/tokens/{made['id']}"
    assert other.browser.delete(path, headers=other.csrf).status_code == 404
    assert person.browser.delete(path).status_code == 403
    assert front.browser().get("/api/v1/definitions", headers=headers).status_code == 403  # it is for submitting only
    assert person.browser.delete(path, headers=person.csrf).status_code == 204
    assert person.browser.delete(path, headers=person.csrf).status_code == 404
    assert person.browser.get("/auth/tokens").json()["items"] == []
    assert front.browser().post("/api/v1/submissions", json=body, headers=headers).status_code == 401
    assert ("carol", "token.create") in front.audited()
    assert ("carol", "token.revoke") in front.audited()


def test_a_token_that_nobody_may_make_is_refused(front: Front) -> None:
    person = front.person()
    wrong: list[dict[str, Any]] = [
        {"scopes": ["admin"]},
        {"scopes": ["read", "admin"]},
        {"scopes": []},
        {"scopes": ["read,admin"]},
        {"scopes": ["read"], "expires_days": 0},
        {"scopes": ["read"], "expires_days": 100000},
        {"scopes": ["read"], "expires_days": None},
        {"scopes": ["read"], "author_id": 1},
    ]
    for body in wrong:
        assert person.post("/auth/tokens", body).status_code == 422, body
    assert person.browser.get("/auth/tokens").json()["items"] == []


def test_nobody_makes_no_token_and_nobody_hoards_them(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    assert front.browser().post("/auth/tokens", json={"scopes": ["read"]}).status_code == 401
    assert front.browser().get("/auth/tokens").status_code == 401
    monkeypatch.setattr(signin, "MOST_TOKENS", 2)
    person = front.person()
    for _ in range(2):
        person.make_token("read")
    assert person.post("/auth/tokens", {"scopes": ["read"]}).status_code == 409


def test_the_cookie_is_kept_from_scripts_and_other_sites(front: Front) -> None:
    flags = _flags(front.sign_in(front.browser()))
    assert {"httponly", "samesite=lax", "path=/"} <= flags
    assert "secure" not in flags
    assert not any(flag.startswith("domain") for flag in flags)


def test_the_cookie_is_secure_where_the_service_is(lone: Database, idp: OidcProvider, tmp_path: Path) -> None:
    front = Front(lone, idp, tmp_path, public_url="https://board.example/")
    idp.redirect_uri = "https://board.example/auth/callback"
    browser = front.browser()
    reply = front.sign_in(browser)
    assert reply.headers["set-cookie"].startswith("__Host-kernelmill=")
    assert {"httponly", "samesite=lax", "secure", "path=/"} <= _flags(reply)
    assert Person(browser).me["name"] == "carol"
    front.world.close()


def test_the_cookie_holds_nothing_of_the_providers(front: Front) -> None:
    browser = front.browser()
    front.sign_in(browser)
    data = json.loads(base64.b64decode(browser.cookies["kernelmill"].split(".")[0]))
    assert set(data) == {"author", "csrf"}
    assert len(data["csrf"]) >= 32


def test_a_session_begins_anew_at_each_sign_in(front: Front) -> None:
    browser = front.browser()
    front.sign_in(browser)
    before = Person(browser).me["csrf_token"]
    front.sign_in(browser)
    assert Person(browser).me["csrf_token"] != before


def test_a_cookie_that_was_changed_is_of_no_use(front: Front) -> None:
    person = front.person()
    data, moment, signature = person.browser.cookies["kernelmill"].split(".")
    forged = base64.b64encode(json.dumps({"author": 1, "csrf": "x" * 43}).encode()).decode()
    for cookie in (
        f"{forged}.{moment}.{signature}",
        f"{data}.{moment}.{signature[:-2]}AA",
        f"{data}.zzzzzz.{signature}",
        forged,
        "",
    ):
        reply = _me_with(front, cookie)
        assert reply.status_code == 401, cookie
    assert _me_with(front, f"{data}.{moment}.{signature}").status_code == 200


def test_a_cookie_of_another_secret_is_of_no_use(lone: Database, idp: OidcProvider, tmp_path: Path) -> None:
    front = Front(lone, idp, tmp_path)
    cookie = front.person().browser.cookies["kernelmill"]
    settings = front.world.settings.model_copy(update={"session_secret": SecretStr("")})
    with TestClient(create_app(settings, lone), base_url=PUBLIC) as other:
        assert other.get("/auth/me", headers={"Cookie": f"kernelmill={cookie}"}).status_code == 401
    front.world.close()


def test_replies_to_people_are_not_given_to_others(front: Front) -> None:
    person = front.person()
    assert "Cookie" in person.browser.get("/api/v1/definitions").headers["vary"]


def _me_with(front: Front, cookie: str) -> Response:
    return front.browser().get("/auth/me", headers={"Cookie": f"kernelmill={cookie}"})


def _flags(reply: Response) -> set[str]:
    return {part.strip().lower() for part in reply.headers["set-cookie"].split(";")[1:]}


GOOD = {
    "oidc_issuer": "https://id.example/realm",
    "oidc_client_id": "x",
    "public_url": "https://board.example",
}


@pytest.mark.parametrize(
    ("over", "wanted"),
    [
        ({"oidc_client_id": ""}, "without OIDC_CLIENT_ID"),
        ({"oidc_issuer": ""}, "without OIDC_ISSUER"),
        ({"oidc_issuer": "", "oidc_client_id": "", "oidc_client_secret": SecretStr("x")}, "without OIDC_ISSUER"),
        ({"oidc_issuer": "github"}, "needs OIDC_CLIENT_SECRET"),
        ({"oidc_issuer": "http://id.example"}, "neither github nor"),
        ({"oidc_issuer": "GitHub"}, "neither github nor"),
        ({"public_url": ""}, "PUBLIC_URL must be"),
        ({"public_url": "http://board.example"}, "PUBLIC_URL must be"),
        ({"public_url": "https://board.example/km"}, "PUBLIC_URL must be"),
        ({"public_url": "https://user@board.example"}, "PUBLIC_URL must be"),
        ({"public_url": "https://board.example:port"}, "PUBLIC_URL must be"),
        ({"session_secret": SecretStr("short")}, "shorter than 32"),
        ({"auth": False}, "AUTH is off"),
    ],
    ids=str,
)
def test_settings_that_do_not_go_together(lone: Database, over: dict[str, Any], wanted: str) -> None:
    with pytest.raises(InternalError, match=re.escape(wanted)):
        create_app(Settings(**{**GOOD, **over}), lone)


def test_settings_that_go_together(lone: Database) -> None:
    create_app(Settings(**GOOD), lone)  # type: ignore[arg-type]
    create_app(Settings(**{**GOOD, "public_url": "http://[::1]:8000"}), lone)  # type: ignore[arg-type]
    told = repr(Settings(**GOOD, oidc_client_secret="hush", session_secret=SECRET))  # type: ignore[arg-type]
    assert "hush" not in told
    assert SECRET not in told
