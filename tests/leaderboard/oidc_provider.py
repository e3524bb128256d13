"""An OpenID Connect provider on a free port, and a GitHub: whoever comes is signed in at once, as a test chose.

It keeps to the rules (client authentication, PKCE, one use of a code) unless a test bends one.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode

import uvicorn
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

CLIENT_ID = "kernelmill-test"
CLIENT_SECRET = "a secret of the client's"


@dataclass
class Bent:
    """What the provider does otherwise than it should."""

    claims: dict[str, Any] = field(default_factory=dict)
    """Put over those of the id token; None takes one away."""
    discovery: dict[str, Any] = field(default_factory=dict)
    userinfo: dict[str, Any] = field(default_factory=dict)
    authorize_error: str | None = None
    token_error: str | None = None
    token_status: int = 200
    is_unsigned: bool = False
    is_signed_by_another: bool = False
    has_id_token: bool = True


@dataclass(frozen=True)
class Begun:
    """A sign-in for which a code was given."""

    challenge: str
    redirect_uri: str
    nonce: str | None
    claims: dict[str, Any]


class OidcProvider:
    """`person` is who signs in next."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
        self.person: dict[str, Any] = {"sub": "1", "preferred_username": "carol"}
        self.bent = Bent()
        self.url = ""
        self.redirect_uri = ""
        """The one that is registered."""
        self._codes: dict[str, Begun] = {}
        self._access: dict[str, dict[str, Any]] = {}
        self.app = Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self.discovery),
                Route("/jwks", self.jwks),
                Route("/authorize", self.authorize),
                Route("/token", self.token, methods=["POST"]),
                Route("/userinfo", self.userinfo),
                Route("/user", self.github_user),
            ]
        )

    async def discovery(self, request: Request) -> Response:
        told = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "id_token_signing_alg_values_supported": ["RS256", "none"],
        }
        return JSONResponse({**told, **self.bent.discovery})

    async def jwks(self, request: Request) -> Response:
        return JSONResponse(KeySet([self.key]).as_dict(private=False))

    async def authorize(self, request: Request) -> Response:
        asked = request.query_params
        if asked["redirect_uri"] != self.redirect_uri or asked["client_id"] != CLIENT_ID:
            return Response("unknown client or redirect_uri", 400)
        back: dict[str, str] = {"state": asked["state"]}
        if self.bent.authorize_error is not None:
            back |= {"error": self.bent.authorize_error, "error_description": "internal detail"}
        else:
            assert asked["code_challenge_method"] == "S256"
            back["code"] = secrets.token_urlsafe(16)
            self._codes[back["code"]] = Begun(
                asked["code_challenge"], asked["redirect_uri"], asked.get("nonce"), dict(self.person)
            )
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}", 302)

    async def token(self, request: Request) -> Response:
        sent = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        if self.bent.token_error is not None or self.bent.token_status != 200:
            return JSONResponse(
                {"error": self.bent.token_error, "error_description": "internal detail"}, self.bent.token_status
            )
        if not self._is_client(request, sent):
            return JSONResponse({"error": "invalid_client"}, 401)
        begun = self._codes.pop(sent.get("code", ""), None)
        hashed = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(hashed).decode().rstrip("=")
        if begun is None or begun.challenge != challenge or begun.redirect_uri != sent.get("redirect_uri"):
            return JSONResponse({"error": "invalid_grant"}, 400)
        access = secrets.token_urlsafe(16)
        self._access[access] = begun.claims
        told = {"access_token": access, "token_type": "Bearer", "expires_in": 3600}
        if begun.nonce is not None and self.bent.has_id_token:
            told["id_token"] = self._id_token(begun)
        return JSONResponse(told)

    async def userinfo(self, request: Request) -> Response:
        found = self._access.get(request.headers.get("authorization", "").removeprefix("Bearer "))
        return JSONResponse({**found, **self.bent.userinfo}) if found else JSONResponse({}, 401)

    async def github_user(self, request: Request) -> Response:
        found = self._access.get(request.headers.get("authorization", "").removeprefix("Bearer "))
        return JSONResponse(found) if found else JSONResponse({"message": "Bad credentials"}, 401)

    def _is_client(self, request: Request, sent: dict[str, str]) -> bool:
        basic = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if "client_secret_post" in self.bent.discovery.get("token_endpoint_auth_methods_supported", []):
            return (sent.get("client_id"), sent.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
        return request.headers.get("authorization") == f"Basic {basic}"

    def _id_token(self, begun: Begun) -> str:
        moment = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT_ID, "iat": moment, "exp": moment + 300, "nonce": begun.nonce}
        claims |= {**begun.claims, **self.bent.claims}
        claims = {name: value for name, value in claims.items() if value is not None}
        if self.bent.is_unsigned:
            header = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
            body = jwt.encode({"alg": "RS256"}, claims, self.key).split(".")[1]
            return f"{header}.{body}."
        key = RSAKey.generate_key(2048, {"kid": "one"}) if self.bent.is_signed_by_another else self.key
        return jwt.encode({"alg": "RS256", "kid": "one"}, claims, key)


@contextmanager
def served(app: ASGIApp, listener: socket.socket) -> Iterator[str]:
    """An application on a socket that is bound, in a thread; its address."""
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 30
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()


def listening() -> socket.socket:
    """On a free port."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(16)
    return listener


@contextmanager
def provider() -> Iterator[OidcProvider]:
    made = OidcProvider()
    with served(made.app, listening()) as url:
        made.url = url
        yield made
