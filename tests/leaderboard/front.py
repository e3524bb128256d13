"""A service where people sign in, and their browsers."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from fastapi.testclient import TestClient
from httpx2 import Response
from pydantic import SecretStr
from sqlalchemy import select

from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.engine import Database
from tests.leaderboard.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProvider
from tests.leaderboard.world import World, small_dataset

PUBLIC = "http://localhost"
SECRET = "s" * 32


class Front:
    """A service with sign-in; each browser has its own cookies."""

    def __init__(self, database: Database, idp: OidcProvider, folder: Path, **over: Any) -> None:
        self.idp = idp
        settings: dict[str, Any] = {"oidc_issuer": idp.url, "oidc_client_id": CLIENT_ID, "public_url": PUBLIC}
        settings |= {"oidc_client_secret": SecretStr(CLIENT_SECRET), "session_secret": SecretStr(SECRET), **over}
        self.world = World(database, small_dataset(folder / "dataset"), folder, **settings)
        self.address = self.world.settings.public_url

    def browser(self) -> TestClient:
        return TestClient(
            self.world.client.app, base_url=self.address, follow_redirects=False, raise_server_exceptions=False
        )

    def sign_in(self, browser: TestClient, following: str | None = None, **over: str | None) -> Response:
        """To the provider and back; `over` changes what it sends back, None leaves it out. The service's last reply."""
        away = browser.get("/auth/login", params={"next": following} if following else {})
        assert away.status_code == 302, away.text
        back = httpx2.get(away.headers["location"])
        assert back.status_code == 302, back.text
        sent = {name: values[0] for name, values in parse_qs(urlsplit(back.headers["location"]).query).items()}
        wanted: dict[str, str | None] = {**sent, **over}
        return browser.get("/auth/callback", params={name: text for name, text in wanted.items() if text is not None})

    def person(self, sub: str = "1", name: str = "carol") -> Person:
        """Who has signed in."""
        self.idp.person = {"sub": sub, "preferred_username": name}
        browser = self.browser()
        reply = self.sign_in(browser)
        assert reply.status_code == 303, reply.text
        return Person(browser)

    def authors(self) -> dict[str, str | None]:
        with self.world.database.read() as connection:
            rows = connection.execute(select(t.Author.name, t.Author.subject)).all()
        return {row.name: row.subject for row in rows}

    def audited(self) -> list[tuple[str, str]]:
        with self.world.database.read() as connection:
            rows = connection.execute(select(t.Audit.actor, t.Audit.action).order_by(t.Audit.id)).all()
        return [(row.actor, row.action) for row in rows]


class Person:
    """A browser that is signed in, with the pages' CSRF token."""

    def __init__(self, browser: TestClient) -> None:
        self.browser = browser
        self.me: dict[str, Any] = browser.get("/auth/me").json()
        self.csrf = {"X-CSRF-Token": self.me["csrf_token"]}

    def post(self, path: str, body: Any = None) -> Response:
        return self.browser.post(path, json=body, headers=self.csrf)

    def make_token(self, *scopes: str) -> dict[str, Any]:
        reply = self.post("/auth/tokens", {"scopes": list(scopes)})
        assert reply.status_code == 201, reply.text
        found: dict[str, Any] = reply.json()
        return found


def assert_nobody(browser: TestClient, reply: Response, *statuses: int) -> None:
    """Refused as a problem that tells no detail, and nobody is signed in."""
    assert reply.status_code in statuses, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    assert "internal detail" not in reply.text
    assert "Traceback" not in reply.text
    assert browser.get("/auth/me").status_code == 401
