"""Who says who somebody is: an OpenID Connect provider, found by its issuer's address, or GitHub, which is none.

The code flow with PKCE, a state that is bound to the browser's cookie, and a nonce. Nothing that the provider gives is
kept but its identifier of the person. What it says went wrong is logged by kind, and never told.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.base_client.errors import MismatchingStateError
from authlib.integrations.starlette_client import OAuth
from fastapi import Request, Response
from joserfc.errors import JoseError

from kernelmill.leaderboard.errors import Forbidden, Refused
from kernelmill.leaderboard.settings import GITHUB, Settings, is_trusted_url

CALLBACK = "/auth/callback"
DEADLINE_S = 20.0
CLOCKS_APART_S = 60
LONGEST_SUBJECT = 255
GITHUB_ENDPOINTS = {
    "authorize_url": "https://github.com/login/oauth/authorize",
    "access_token_url": "https://github.com/login/oauth/access_token",
    "api_base_url": "https://api.github.com/",
}
REQUIRED = ("authorization_endpoint", "token_endpoint", "jwks_uri")
SIGNATURES = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
"""By a key that only the provider has. `none`, which providers may list, is no signature."""
_log = logging.getLogger("kernelmill.signin")


class NotProven(Refused):
    """The provider's answer does not prove who it is."""

    status = 401
    title = "Sign-in failed"


class ProviderFault(Refused):
    """The provider is away, or does not do its part."""

    status = 502
    title = "Identity provider failed"


@dataclass(frozen=True, slots=True)
class Identity:
    """`subject` is the same for the same person for ever; `wished` is a name of their choice, to be trusted in
    nothing."""

    subject: str
    wished: str


def provider_of(settings: Settings) -> Provider:
    return GitHub(settings) if settings.oidc_issuer == GITHUB else OpenID(settings)


class Provider(ABC):
    """Sends people away to sign in, and learns who they are when they come back."""

    def __init__(self, settings: Settings, **registration: Any) -> None:
        self._callback = settings.public_url.rstrip("/") + CALLBACK
        secret = settings.oidc_client_secret.get_secret_value() or None
        options = {"code_challenge_method": "S256", "timeout": DEADLINE_S, **registration.pop("client_kwargs", {})}
        self._client = OAuth().register(
            "people", client_id=settings.oidc_client_id, client_secret=secret, client_kwargs=options, **registration
        )

    async def begin(self, request: Request) -> Response:
        """To the provider. Raises ProviderFault."""
        async with _told():
            await self._prepare()
            reply: Response = await self._client.authorize_redirect(request, self._callback)
        return reply

    async def finish(self, request: Request) -> Identity:
        """Raises Forbidden, NotProven, ProviderFault."""
        error = request.query_params.get("error")
        if error is not None:
            _log.warning("refused by the identity provider", extra={"error": error[:100]})
            if error == "access_denied":
                raise Forbidden("the identity provider did not let you in")
            raise ProviderFault("the identity provider could not sign you in; try again")
        async with _told():
            await self._prepare()
            try:
                token = await self._client.authorize_access_token(request, **self._checks())
            except JoseError:
                self._client.server_metadata.pop("jwks", None)  # a key may have changed under its old name
                raise
            return await self._identity(token)

    @abstractmethod
    async def _prepare(self) -> None:
        """What must be known before anything else."""

    @abstractmethod
    def _checks(self) -> dict[str, Any]:
        """What an id token must satisfy."""

    @abstractmethod
    async def _identity(self, token: Mapping[str, Any]) -> Identity: ...


class OpenID(Provider):
    """Any provider with a discovery document."""

    def __init__(self, settings: Settings) -> None:
        self._issuer = settings.oidc_issuer
        self._client_id = settings.oidc_client_id
        super().__init__(
            settings,
            server_metadata_url=self._issuer.rstrip("/") + "/.well-known/openid-configuration",
            client_kwargs={"scope": "openid profile"},
        )

    async def _prepare(self) -> None:
        if "_loaded_at" in self._client.server_metadata:
            return
        found = await self._client.load_server_metadata()
        self._client.server_metadata = {}  # a document that does not pass is asked for anew the next time
        self._client.server_metadata = checked(found, self._issuer)
        methods = found.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if self._client.client_secret and "client_secret_basic" not in methods and "client_secret_post" in methods:
            self._client.client_kwargs["token_endpoint_auth_method"] = "client_secret_post"

    def _checks(self) -> dict[str, Any]:
        exact = {"iss": self._client.server_metadata["issuer"], "aud": self._client_id}
        options: dict[str, Any] = {claim: {"essential": True, "value": value} for claim, value in exact.items()}
        options |= {claim: {"essential": True} for claim in ("sub", "exp", "iat", "nonce")}
        return {"claims_options": options, "leeway": CLOCKS_APART_S}

    async def _identity(self, token: Mapping[str, Any]) -> Identity:
        claims = token.get("userinfo")  # of the id token, once all of it is checked
        if claims is None:
            raise NotProven("the identity provider sent no id token")
        known = dict(claims)
        metadata = self._client.server_metadata
        if not _wished(known) and "userinfo_endpoint" in metadata:
            told = await self._client.userinfo(token=token)
            if told.get("sub") != known["sub"]:
                raise NotProven("the identity provider told of somebody else")
            known = {**told, "sub": known["sub"]}
        return Identity(_subject(metadata["issuer"], known["sub"]), _wished(known))


class GitHub(Provider):
    """OAuth 2.0 without id tokens: GitHub says whose the access token is, and nothing more is asked of it."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, **GITHUB_ENDPOINTS)

    async def _prepare(self) -> None:
        return

    def _checks(self) -> dict[str, Any]:
        return {}

    async def _identity(self, token: Mapping[str, Any]) -> Identity:
        reply = await self._client.get("user", token=token)
        reply.raise_for_status()
        person = reply.json()
        if type(person["id"]) is not int:
            raise ProviderFault("GitHub did not say who you are")
        return Identity(_subject(GITHUB, str(person["id"])), _wished(person))


def checked(found: Mapping[str, Any], issuer: str) -> dict[str, Any]:
    """What is used of a discovery document. Raises ProviderFault for one that is not the issuer's, or unsafe."""
    told = str(found.get("issuer"))
    if told.rstrip("/") != issuer.rstrip("/"):
        _log.error("discovery tells of another issuer", extra={"issuer": told[:200], "wanted": issuer})
        raise ProviderFault("the identity provider calls itself by another name; tell the service's operator")
    names = [*REQUIRED, *(["userinfo_endpoint"] if "userinfo_endpoint" in found else [])]
    for name in names:
        if not is_trusted_url(str(found.get(name)).partition("?")[0]):
            _log.error("discovery lacks an endpoint that can be trusted", extra={"endpoint": name})
            raise ProviderFault("the identity provider lacks what sign-in needs; tell the service's operator")
    listed = [each for each in found.get("id_token_signing_alg_values_supported", []) if each in SIGNATURES]
    kept = {name: found[name] for name in (*names, "issuer", "_loaded_at")}
    return {**kept, "id_token_signing_alg_values_supported": listed or ["RS256"]}


def _subject(issuer: str, identifier: object) -> str:
    subject = f"{issuer}|{identifier}"
    if not isinstance(identifier, str) or not identifier.isprintable() or len(subject) > LONGEST_SUBJECT:
        raise ProviderFault("the identity provider's identifier of you can't be kept; tell the service's operator")
    return subject


def _wished(claims: Mapping[str, Any]) -> str:
    found = (claims.get(name) for name in ("preferred_username", "login", "name"))
    return next((each for each in found if isinstance(each, str) and each), "")


@asynccontextmanager
async def _told() -> AsyncIterator[None]:
    """What goes wrong between us and the provider, as a refusal that says whose turn it is."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield
    except MismatchingStateError as error:
        raise Forbidden("this sign-in was not begun in this browser, or too long ago; begin again") from error
    except JoseError as error:
        _log.warning("id token refused", extra={"error": str(error)[:200]})
        raise NotProven("the identity provider's answer does not prove who you are; begin again") from error
    except AuthlibBaseError as error:
        _log.warning("sign-in refused", extra={"error": str(error.error)[:100]})
        if error.error in ("invalid_grant", "missing_code"):
            raise NotProven("the identity provider no longer knows this sign-in; begin again") from error
        raise ProviderFault("the identity provider could not sign you in; tell the service's operator") from error
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
        _log.warning("the identity provider does not answer", extra={"error": type(error).__name__})
        raise ProviderFault("the identity provider does not answer; try again later") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:  # JSON of another shape than it should have
        _log.warning("the identity provider's answer can't be read", exc_info=error)
        raise ProviderFault("the identity provider's answer can't be read; tell the service's operator") from error
