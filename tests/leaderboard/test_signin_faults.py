"""What is wrong with a provider's answer, or with the browser that brings it, lets nobody in."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from joserfc.jwk import RSAKey

from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.db.migrate import migrate
from tests.leaderboard.front import Front, Person, assert_nobody
from tests.leaderboard.oidc_provider import CLIENT_ID, Bent, OidcProvider

HOUR = 3600


@pytest.fixture(scope="module")
def shared(running: OidcProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    folder = tmp_path_factory.mktemp("shared")
    database = Database(f"sqlite:///{folder / 'service.db'}")
    migrate(database)
    made = Front(database, running, folder)
    yield made
    made.world.close()
    database.close()


@pytest.fixture
def front(shared: Front, idp: OidcProvider) -> Front:
    """One for all of them: hardly anybody gets in."""
    return shared


def test_userinfo_of_somebody_else_is_refused(front: Front) -> None:
    front.idp.bent = Bent(claims={"preferred_username": None}, userinfo={"sub": "2"})
    browser = front.browser()
    assert_nobody(browser, front.sign_in(browser), 401)


@pytest.mark.parametrize("over", [{"state": "other"}, {"state": None}, {"state": None, "code": None}])
def test_a_wrong_state_lets_nobody_in(front: Front, over: dict[str, str | None]) -> None:
    browser = front.browser()
    assert_nobody(browser, front.sign_in(browser, **over), 403)


def test_a_sign_in_that_another_browser_began_is_refused(front: Front) -> None:
    theirs, mine = front.browser(), front.browser()
    back = httpx2.get(theirs.get("/auth/login").headers["location"]).headers["location"]
    mine.get("/auth/login")
    assert_nobody(mine, mine.get(back), 403)


def test_a_code_works_once(front: Front) -> None:
    browser = front.browser()
    back = httpx2.get(browser.get("/auth/login").headers["location"]).headers["location"]
    cookies = dict(browser.cookies)
    assert browser.get(back).status_code == 303
    again = front.browser()
    again.cookies.update(cookies)
    assert_nobody(again, again.get(back), 401)


@pytest.mark.parametrize("over", [{"code": "guessed"}, {"code": None}])
def test_a_code_that_the_provider_did_not_give_is_refused(front: Front, over: dict[str, str | None]) -> None:
    browser = front.browser()
    assert_nobody(browser, front.sign_in(browser, **over), 401)


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "other"},
        {"nonce": None},
        {"aud": "another-client"},
        {"aud": ["another-client"]},
        {"aud": [CLIENT_ID, "another-client"], "azp": "another-client"},
        {"aud": None},
        {"iss": "https://another.example"},
        {"exp": -HOUR},
        {"exp": None},
        {"iat": HOUR},
        {"sub": None},
        {"sub": 7},
        {"at_hash": "AAAA"},
    ],
    ids=str,
)
def test_an_id_token_that_proves_nothing_lets_nobody_in(front: Front, claims: dict[str, Any]) -> None:
    moments = {name: int(time.time()) + claims[name] for name in ("exp", "iat") if claims.get(name)}
    front.idp.bent.claims = {**claims, **moments}
    before, browser = front.authors(), front.browser()
    assert_nobody(browser, front.sign_in(browser), 401)
    assert front.authors() == before


@pytest.mark.parametrize("bent", [{"is_unsigned": True}, {"is_signed_by_another": True}, {"has_id_token": False}])
def test_an_id_token_that_the_provider_did_not_sign_lets_nobody_in(front: Front, bent: dict[str, bool]) -> None:
    front.idp.bent = Bent(**bent)  # type: ignore[arg-type]
    browser = front.browser()
    assert_nobody(browser, front.sign_in(browser), 401)


@pytest.mark.parametrize(
    ("bent", "status"),
    [
        ({"authorize_error": "access_denied"}, 403),
        ({"authorize_error": "server_error"}, 502),
        ({"token_error": "invalid_client", "token_status": 401}, 502),
        ({"token_error": "invalid_grant", "token_status": 400}, 401),
        ({"token_status": 500}, 502),
        ({"claims": {"sub": "x" * 300}}, 502),
        ({"claims": {"sub": "nul\0"}}, 502),
    ],
    ids=str,
)
def test_an_error_of_the_provider_is_a_problem(front: Front, bent: dict[str, Any], status: int) -> None:
    front.idp.bent = Bent(**bent)
    browser = front.browser()
    assert_nobody(browser, front.sign_in(browser), status)


def test_a_key_that_changed_under_its_old_name_is_seen_the_next_time(front: Front) -> None:
    front.person()
    before = front.idp.key
    front.idp.key = RSAKey.generate_key(2048, {"kid": "one"})
    try:
        browser = front.browser()
        assert_nobody(browser, front.sign_in(browser), 401)
        assert front.sign_in(browser).status_code == 303
        assert Person(browser).me["name"] == "carol"
    finally:
        front.idp.key = before
