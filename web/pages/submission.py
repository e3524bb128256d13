"""A submission as it is judged, the list of them, and the form that makes one."""

from __future__ import annotations

from fastapi import Request
from sqlalchemy import select
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from kernelmill.leaderboard import events, views
from kernelmill.leaderboard.api.context import principal, service_of
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.submissions import TERMINAL
from kernelmill.leaderboard.tokens import Principal
from kernelmill.web.html import PageRoute, page

SHOWN = 50


async def submission(request: Request) -> Response:
    return await run_in_threadpool(_submission, request, await principal(request))


def _submission(request: Request, who: Principal) -> Response:
    number = request.path_params["id"]
    with service_of(request).database.read() as connection:
        view = views.see(connection, number, who)
        told = events.after(connection, number, 0)
    return page(request, "submission.html", view=view, events=told, ended=view["state"] in TERMINAL)


async def listing(request: Request) -> Response:
    return await run_in_threadpool(_listing, request, await principal(request))


def _listing(request: Request, who: Principal) -> Response:
    own = t.Submission
    query = select(own.id).order_by(own.created_at.desc(), own.id.desc()).limit(SHOWN)
    if not who.is_admin:
        query = query.where(own.is_ranked if who.id is None else own.is_ranked | (own.author_id == who.id))
    with service_of(request).database.read() as connection:
        found = [views.see(connection, number, who) for number in connection.scalars(query).all()]
    return page(request, "submissions.html", rows=found)


def form(request: Request) -> Response:
    """The form's script sends JSON to the API; without a script the page says how to submit from a shell."""
    service = service_of(request)
    with service.database.read() as connection:
        names = select(t.Definition.name).where(t.Definition.is_current).order_by(t.Definition.name)
        definitions = list(connection.scalars(names))
    return page(request, "submit.html", auth=service.settings.auth, definitions=definitions)


ROUTES = [
    PageRoute("/submissions", listing),
    PageRoute("/submissions/{id}", submission),
    PageRoute("/submit", form),
]
