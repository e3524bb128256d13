"""Home: who leads, and how to take part."""

from __future__ import annotations

from fastapi import Request
from sqlalchemy import func, select
from starlette.responses import Response

from kernelmill.leaderboard import ranking
from kernelmill.leaderboard.api.context import service_of
from kernelmill.leaderboard.db import tables as t
from kernelmill.web.html import PageRoute, page

LEADERS = 5


def home(request: Request) -> Response:
    service = service_of(request)
    with service.database.read() as connection:
        edition = ranking.edition(connection, None)
        heads = ranking.heads(connection, edition.id)
        models = sorted({head.device_model for head in heads})
        leaders = {
            model: service.ranking.standings(
                connection, edition.id, [head for head in heads if head.device_model == model], "author", None
            )[:LEADERS]
            for model in models
        }
        counts = {
            "definitions": connection.scalar(select(func.count()).where(t.Definition.is_current)),
            "solutions": connection.scalar(
                select(func.count()).where(t.Solution.is_public, t.Solution.hidden_at.is_(None))
            ),
            "devices": len(models),
        }
    return page(request, "home.html", edition=edition, leaders=leaders, counts=counts)


ROUTES = [PageRoute("/", home)]
