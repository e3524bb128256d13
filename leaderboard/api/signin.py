"""`/auth`: people sign in, and make tokens for their programs. Their cookie holds their number and a CSRF secret."""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, Field
from sqlalchemy import select
from starlette.concurrency import run_in_threadpool

from kernelmill.leaderboard import people, tokens
from kernelmill.leaderboard.api.context import Reader, Service, TheService
from kernelmill.leaderboard.api.identity import CALLBACK, Identity, Provider
from kernelmill.leaderboard.api.models import Listed, Strict
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.errors import Conflict, Forbidden, Invalid, Unauthorized
from kernelmill.leaderboard.tokens import Principal, Scope

router = APIRouter(tags=["sign-in"])
MOST_TOKENS = 50
LONGEST_DAYS = 366
PRIVATE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
"""For replies that hold a secret, or whose address does."""


class Me(BaseModel):
    """Who asks."""

    name: str
    scopes: list[Scope]
    is_banned: bool
    csrf_token: str | None
    """What a page sends as X-CSRF-Token with all that changes something; null where a token asks."""


class TokenRequest(Strict):
    """A token for a program."""

    scopes: Annotated[list[Literal["read", "submit"]], Field(min_length=1, max_length=2)]
    expires_days: Annotated[int, Field(ge=1, le=LONGEST_DAYS)] = 90


class TokenItem(BaseModel):
    id: int
    scopes: str
    created_at: datetime
    expires_at: datetime | None


class TokenMade(BaseModel):
    """The token is shown this once."""

    id: int
    token: str


def signed_in(request: Request, who: Reader) -> Principal:
    """Raises Forbidden for a token: one that leaked must not make others."""
    if "authorization" in request.headers:
        raise Forbidden("a token can't do this; sign in with a browser")
    if who.id is None:
        raise Unauthorized("nobody is signed in; GET /auth/login")
    return who


Person = Annotated[Principal, Depends(signed_in)]


@router.get("/auth/login", status_code=302, response_class=RedirectResponse)
async def login(
    request: Request, who: Reader, following: Annotated[str, Query(alias="next", max_length=500)] = "/"
) -> Response:
    """To the identity provider, and from there to `next`, a path of this service."""
    request.session["next"] = local_path(following)
    provider: Provider = request.app.state.provider
    reply = await provider.begin(request)
    reply.headers.update(PRIVATE)
    return reply


@router.get(CALLBACK, status_code=303, response_class=RedirectResponse)
async def callback(request: Request, service: TheService, who: Reader) -> Response:
    """Where the identity provider sends people back to."""
    provider: Provider = request.app.state.provider
    identity = await provider.finish(request)
    number = await run_in_threadpool(_author, service, identity)
    following = request.session.get("next", "/")
    request.session.clear()  # nothing of before the sign-in may count after it
    request.session.update(author=number, csrf=secrets.token_urlsafe(32))
    return RedirectResponse(following, 303, headers=PRIVATE)


@router.post("/auth/logout", status_code=204)
def logout(request: Request, who: Person) -> Response:
    """Forget the browser's cookie; needs X-CSRF-Token."""
    request.session.clear()
    return Response(status_code=204, headers=PRIVATE)


@router.get("/auth/me", response_model=Me)
def me(request: Request, response: Response, who: Reader) -> Me:
    """Who asks, and what their pages need."""
    if who.id is None:
        raise Unauthorized("nobody is signed in; GET /auth/login")
    response.headers.update(PRIVATE)
    csrf = None if "authorization" in request.headers else request.session["csrf"]
    return Me(name=who.name, scopes=sorted(who.scopes), is_banned=who.is_banned, csrf_token=csrf)


@router.post("/auth/tokens", status_code=201, response_model=TokenMade)
def create_token(response: Response, service: TheService, who: Person, payload: TokenRequest) -> TokenMade:
    """A new token of one's own."""
    assert who.id is not None
    if who.is_banned:
        raise Forbidden(f"the author {who.name} is banned")
    response.headers.update(PRIVATE)
    with service.database.write() as connection:
        if len(tokens.valid_of(connection, who.id)) >= MOST_TOKENS:
            raise Conflict(f"{who.name} has {MOST_TOKENS} valid tokens; revoke one first")
        wanted = frozenset(Scope(each) for each in payload.scopes)
        token = tokens.create(connection, who.id, wanted, payload.expires_days, by=who.name)
        number = connection.execute(select(t.Token.id).where(t.Token.hash == tokens.digest(token))).scalar_one()
    return TokenMade(id=number, token=token)


@router.get("/auth/tokens", response_model=Listed[TokenItem])
def list_tokens(response: Response, service: TheService, who: Person) -> Listed[TokenItem]:
    """One's own tokens that are valid now."""
    assert who.id is not None
    response.headers.update(PRIVATE)
    with service.database.read() as connection:
        return Listed(items=[TokenItem(**row) for row in tokens.valid_of(connection, who.id)])


@router.delete("/auth/tokens/{number}", status_code=204)
def revoke_token(service: TheService, who: Person, number: Annotated[int, Path(ge=1, lt=1 << 62)]) -> Response:
    """Make one of one's own tokens invalid, from the next request on."""
    with service.database.write() as connection:
        tokens.revoke(connection, number, by=who.name, author_id=who.id)
    return Response(status_code=204, headers=PRIVATE)


def local_path(text: str) -> str:
    """Raises Invalid for what a browser could take for another host's address: it drops tabs, and turns \\ into /."""
    is_plain = text.isascii() and text.isprintable() and "\\" not in text and text.startswith("/")
    if not is_plain or text.startswith("//"):
        raise Invalid("next", "it must be a path of this service, such as /solutions")
    return text


def _author(service: Service, identity: Identity) -> int:
    with service.database.write() as connection:
        return people.find_or_make(connection, identity.subject, identity.wished)
