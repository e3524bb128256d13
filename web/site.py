"""The site as a whole: its routes before the API's, its files, and its error pages."""

from __future__ import annotations

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from kernelmill.leaderboard import architectures
from kernelmill.leaderboard.api import problems
from kernelmill.leaderboard.errors import Refused
from kernelmill.web import pages
from kernelmill.web.html import HERE, compile_templates, page, wants_html


def install(app: FastAPI) -> None:
    """Pages go before the routes that give programs JSON at the same addresses.

    Templates and the models' modules are made ready here, and not while the first reader waits.
    """
    app.router.routes[:0] = pages.routes()
    compile_templates()
    architectures.users()
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    told = {Refused: problems.refused, HTTPException: problems.http}
    for kind, handler in told.items():
        app.add_exception_handler(kind, _for_people(handler))


def _for_people(handler: problems.Handler) -> problems.Handler:
    """Whoever asked for a page is answered with one."""

    async def answer(request: Request, error: Exception) -> Response:
        reply = await handler(request, error)
        if request.url.path.startswith("/api/") or not wants_html(request.scope):
            return reply
        return page(
            request,
            "error.html",
            status=reply.status_code,
            title=getattr(error, "title", "Not found" if reply.status_code == 404 else "Request refused"),
            detail=_detail(request, error),
        )

    return answer


def _detail(request: Request, error: Exception) -> str:
    """An address that nobody knows comes with the status's name alone."""
    if isinstance(error, HTTPException) and error.status_code == 404:
        return f"There is no page {request.url.path}."
    return str(getattr(error, "detail", ""))
