"""People sign in with a real provider on this host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from kernelmill.leaderboard import moderation
from kernelmill.leaderboard.api import identity
from kernelmill.leaderboard.db.engine import Database
from tests.leaderboard.front import Front, Person, assert_nobody
from tests.leaderboard.oidc_provider import Bent, OidcProvider, listening, served
from tests.leaderboard.world import scripted, submission


def test_sign_in_makes_a_person_on_every_database(database: Database, idp: OidcProvider, tmp_path: Path) -> None:
    front = Front(database, idp, tmp_path)
    first = front.person()
    assert first.me["name"] == "carol"
    assert first.me["scopes"] == ["read", "submit"]
    assert front.authors()["carol"] == f"{idp.url}|1"
    idp.person = {"sub": "1", "preferred_username": "changed"}
    browser = front.browser()
    assert front.sign_in(browser).status_code == 303
    assert Person(browser).me["name"] == "carol"
    made = first.make_token("submit", "read")
    assert [each["id"] for each in first.browser.get("/auth/tokens").json()["items"]] == [made["id"]]
    assert first.browser.delete(f"/auth/tokens/{made['id']}", headers=first.csrf).status_code == 204
    assert front.audited()[-3:] == [("carol", "author.create"), ("carol", "token.create"), ("carol", "token.revoke")]
    front.world.close()


def test_a_browser_that_follows_is_signed_in(lone: Database, idp: OidcProvider, tmp_path: Path) -> None:
    listener = listening()
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    front = Front(lone, idp, tmp_path, public_url=address)
    idp.redirect_uri = f"{address}/auth/callback"
    with served(front.world.client.app, listener), httpx2.Client(base_url=address, follow_redirects=True) as browser:
        reply = browser.get("/auth/login", params={"next": "/auth/me?x=1"})
        assert str(reply.url) == f"{address}/auth/me?x=1"
        assert reply.json()["name"] == "carol"
        assert [len(each.headers.get_list("set-cookie")) for each in reply.history] == [1, 0, 1]
    front.world.close()


def test_a_taken_or_reserved_name_is_another_author(front: Front) -> None:
    before = front.authors()
    for sub, taken in enumerate(("alice", "ALICE", "admin", "Local", "baseline", "vLLM", "root", "anonymous", "cli")):
        assert front.person(f"sub-{sub}", taken).me["name"] == f"{taken}-{3 if taken == 'ALICE' else 2}"
    after = front.authors()
    assert len(after) == len(before) + 9
    assert {name: after[name] for name in before} == before


def test_names_come_from_the_userinfo_where_the_id_token_has_none(front: Front) -> None:
    front.idp.bent.claims = {"preferred_username": None}
    assert front.person("5", "erin").me["name"] == "erin"


def test_a_client_may_authenticate_by_the_body(front: Front) -> None:
    front.idp.bent.discovery = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert front.person().me["name"] == "carol"


def test_github_says_whose_token_it_is(
    lone: Database, idp: OidcProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoints = {"authorize_url": "/authorize", "access_token_url": "/token", "api_base_url": "/"}
    monkeypatch.setattr(identity, "GITHUB_ENDPOINTS", {name: f"{idp.url}{path}" for name, path in endpoints.items()})
    front = Front(lone, idp, tmp_path, oidc_issuer="github")
    idp.person = {"id": 583231, "login": "octocat", "name": "The Octocat"}
    browser = front.browser()
    assert front.sign_in(browser).status_code == 303
    assert Person(browser).me["name"] == "octocat"
    assert front.authors()["octocat"] == "github|583231"
    for wrong in ({"id": "583231", "login": "octocat"}, {"login": "octocat"}, {"id": True}):
        idp.person, other = wrong, front.browser()
        assert_nobody(other, front.sign_in(other), 502)
    idp.bent.token_error = "bad_verification_code"  # with status 200, as GitHub does
    other = front.browser()
    assert_nobody(other, front.sign_in(other), 502)
    front.world.close()


def test_next_is_never_another_host(front: Front) -> None:
    hosts = ["https://evil.example/", "//evil.example", "/\\evil.example", "\\\\evil.example", "/\t/evil.example"]
    for following in [*hosts, "evil", "javascript:alert(1)", "/ü", ""]:
        reply = front.browser().get("/auth/login", params={"next": following})
        assert reply.status_code == 422, following
        assert reply.json()["errors"][0]["field"] == "next"


def test_a_path_is_where_people_come_back_to(front: Front) -> None:
    assert front.sign_in(front.browser(), "/solutions?by=me#x").headers["location"] == "/solutions?by=me#x"
    assert front.sign_in(front.browser()).headers["location"] == "/"


def test_a_banned_author_stays_banned(front: Front) -> None:
    front.person()
    with front.world.database.write() as connection:
        moderation.ban(connection, "carol", by="test")
    again = front.person()
    assert again.me["is_banned"]
    assert again.post("/api/v1/submissions", submission(scripted("PASSED 2.0", "z"))).status_code == 403
    assert again.post("/auth/tokens", {"scopes": ["submit"]}).status_code == 403


def test_a_discovery_document_that_does_not_pass_is_a_problem(front: Front) -> None:
    browser = front.browser()
    wrong: list[dict[str, Any]] = [
        {"issuer": "https://another.example"},
        {"token_endpoint": "http://elsewhere.example/token"},
        {"jwks_uri": None},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"id_token_signing_alg_values_supported": 7},
    ]
    for discovery in wrong:
        front.idp.bent.discovery = discovery
        assert_nobody(browser, browser.get("/auth/login"), 502)
    front.idp.bent = Bent()
    assert front.sign_in(browser).status_code == 303  # it was asked for anew


def test_a_provider_that_is_away_is_a_problem(lone: Database, idp: OidcProvider, tmp_path: Path) -> None:
    with listening() as listener:
        free = listener.getsockname()[1]
    front = Front(lone, idp, tmp_path, oidc_issuer=f"http://127.0.0.1:{free}")
    browser = front.browser()
    assert_nobody(browser, browser.get("/auth/login"), 502)
    front.world.close()
