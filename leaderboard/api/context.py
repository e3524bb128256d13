"""What a route is given: the service behind it, and who asks."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool

from kernelmill.leaderboard import tokens
from kernelmill.leaderboard.api.limits import Limiter, Waiters
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.errors import Forbidden, NotFound, Unauthorized
from kernelmill.leaderboard.ranking import Kept, Ranking
from kernelmill.leaderboard.settings import Settings
from kernelmill.leaderboard.tokens import NOBODY, Principal, Scope

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
LOCAL = "local"
"""The author of everything that is submitted while auth is off."""
bearer = HTTPBearer(auto_error=False, description="A token of `kernelmill token create`.")


@dataclass(slots=True)
class Service:
    """What the routes of one process share."""

    settings: Settings
    database: Database
    limiter: Limiter
    waiters: Waiters
    ranking: Ranking = field(default_factory=Ranking)
    told: Kept = field(default_factory=Kept)
    """Replies of `/leaderboard`, by their tag."""
    heat: Kept = field(default_factory=lambda: Kept(64))
    applied: Kept = field(default_factory=Kept)
    progress: Kept = field(default_factory=Kept)
    """Authors' steps, by name and boards."""


def service_of(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


async def principal(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)] = None
) -> Principal:
    """Who asks: by token, else by the cookie of who signed in, else nobody. Counts the request against its rate."""
    service = service_of(request)
    who = NOBODY
    try:
        if _named(request, service):
            who = await run_in_threadpool(_identify, request, service, credentials)
    finally:  # who brings a wrong token is counted, too, by address
        service.limiter.check(request, who)
    return who


def _named(request: Request, service: Service) -> bool:
    """Whether there is anything to look up."""
    return not service.settings.auth or "authorization" in request.headers or bool(_session(request))


def _identify(request: Request, service: Service, credentials: HTTPAuthorizationCredentials | None) -> Principal:
    if "authorization" in request.headers:
        found = None
        if credentials is not None:
            with service.database.read() as connection:
                found = tokens.principal_of(connection, credentials.credentials)
        if found is None:
            raise Unauthorized("the token is unknown, expired or revoked; ask for another one")
        return found
    if not service.settings.auth:
        return _local(service)
    return _signed_in(request, service)


def _local(service: Service) -> Principal:
    """Everybody, on a service that asks nobody who they are."""
    with service.database.read() as connection:
        try:
            number = tokens.find_author(connection, LOCAL)
        except NotFound:
            number = None
    if number is None:
        with service.database.write() as writing:
            number = tokens.ensure_author(writing, LOCAL)
    return Principal(number, LOCAL, frozenset(Scope))


def _signed_in(request: Request, service: Service) -> Principal:
    """The person behind the cookie. What changes something needs the page's own token, too: others' pages lack it."""
    session = _session(request)
    with service.database.read() as connection:
        found = tokens.principal_by_id(connection, int(session["author"]))
    if found is None:
        return NOBODY
    if request.method not in SAFE:
        given, wanted = request.headers.get("x-csrf-token", ""), str(session.get("csrf", ""))
        if not wanted or not secrets.compare_digest(given.encode(), wanted.encode()):
            raise Forbidden("the header X-CSRF-Token is missing or wrong; reload the page")
    return found


def _session(request: Request) -> dict[str, Any]:
    """Asking for it makes the reply vary by cookie."""
    session: dict[str, Any] = request.session if "session" in request.scope else {}
    return session if "author" in session else {}


async def submitter(who: Annotated[Principal, Depends(principal)]) -> Principal:
    return _with(who, Scope.SUBMIT)


async def administrator(who: Annotated[Principal, Depends(principal)]) -> Principal:
    return _with(who, Scope.ADMIN)


async def reader(who: Annotated[Principal, Depends(principal)]) -> Principal:
    return _with(who, Scope.READ)


def _with(who: Principal, scope: Scope) -> Principal:
    if who.is_banned and scope is not Scope.READ:
        raise Forbidden(f"the author {who.name} is banned")
    if who.may(scope):
        return who
    if who.id is None:
        raise Unauthorized(f"this needs a token with the scope {scope}; make one with: kernelmill token create")
    raise Forbidden(f"the token of {who.name} lacks the scope {scope}")


async def _service(request: Request) -> Service:
    """Async, since FastAPI takes any other dependency to another thread, which costs more than most routes."""
    return service_of(request)


TheService = Annotated[Service, Depends(_service)]
Reader = Annotated[Principal, Depends(reader)]
Submitter = Annotated[Principal, Depends(submitter)]
Administrator = Annotated[Principal, Depends(administrator)]
