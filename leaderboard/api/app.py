"""The application: every route, every layer, one place."""

from __future__ import annotations

import secrets
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

import kernelmill
from kernelmill.leaderboard.api import problems
from kernelmill.leaderboard.api.context import Service
from kernelmill.leaderboard.api.limits import BodyLimit, Limiter, Waiters
from kernelmill.leaderboard.api.metrics import Metrics
from kernelmill.leaderboard.api.routes import (
    catalogue,
    export,
    leaderboard,
    operations,
    proposals,
    public,
    solutions,
    submissions,
    traces,
)
from kernelmill.leaderboard.api.watchman import Watchman
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.settings import Settings

DESCRIPTION = """\
Submit kernels, watch them being judged, read the boards. Reading needs no token; what changes something does:
`Authorization: Bearer km_…`. Lists come in pages: give `next` as `cursor`. Errors are problem+json.
"""
SIGNED_IN_S = 86400
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
REFUSALS = {
    400: "The request can't be read",
    401: "The token is missing, unknown, expired or revoked",
    403: "The token lacks the scope, or its author is banned",
    404: "There is no such thing",
    409: "Not in this state",
    413: "The body is too large",
    422: "A field can't be accepted",
    429: "Too many requests or submissions; see Retry-After",
    503: "The database does not answer",
}


class Api(FastAPI):
    """With the shape of problems in its document, which no route names as its own."""

    def openapi(self) -> dict[str, Any]:
        document = super().openapi()
        shape = problems.Problem.model_json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
        document["components"]["schemas"] |= {**shape.pop("$defs"), "Problem": shape}
        return document


def create_app(settings: Settings, database: Database) -> FastAPI:
    """Raises InternalError for settings that do not go together."""
    settings.check_sign_in()
    app = Api(
        title="KernelMill",
        version=kernelmill.__version__,
        description=DESCRIPTION,
        docs_url=None,  # their pages would load scripts from elsewhere; the site has its own
        redoc_url=None,
        responses={
            status: {"description": text, "content": {problems.MEDIA: {"schema": problems.REFERENCE}}}
            for status, text in REFUSALS.items()
        },
        redirect_slashes=False,
    )
    app.state.service = Service(
        settings, database, Limiter(settings.read_rate, settings.write_rate), Waiters(settings.max_waiters)
    )
    app.state.metrics = Metrics()
    _route(app)
    problems.install(app)
    _layer(app, settings)
    return app


def _route(app: FastAPI) -> None:
    api = APIRouter(prefix="/api/v1")
    for module in (submissions, leaderboard, solutions, catalogue, traces, proposals, export):  # often asked for, first
        api.include_router(module.router)
    app.include_router(api)
    app.include_router(operations.router)
    app.include_router(public.router)


def _layer(app: FastAPI, settings: Settings) -> None:
    """The last one added is the first that a request meets."""
    if settings.oidc_issuer:
        from kernelmill.leaderboard.api import identity, signin

        app.state.provider = identity.provider_of(settings)
        app.include_router(signin.router)
        secret = settings.session_secret.get_secret_value() or secrets.token_urlsafe(32)
        is_secure = settings.is_public_secure
        # Browsers take a cookie of the name __Host-… from this very host over https only: no neighbour can plant one.
        name = "__Host-kernelmill" if is_secure else "kernelmill"
        app.add_middleware(
            SessionMiddleware,
            secret_key=secret,
            session_cookie=name,
            same_site="lax",
            https_only=is_secure,
            max_age=SIGNED_IN_S,
        )
    app.add_middleware(GZipMiddleware, minimum_size=2000, compresslevel=1)
    hosts = [name.strip() for name in settings.allowed_hosts.split(",") if name.strip()]
    if hosts or not settings.auth:
        # Without auth a web page elsewhere could reach us through a name that it points to this host.
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts or list(LOOPBACK))
    app.add_middleware(BodyLimit, most=settings.max_body_bytes)
    app.add_middleware(Watchman, metrics=app.state.metrics)
