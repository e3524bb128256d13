"""Home: who leads, and how to take part."""

from __future__ import annotations

from datetime import timedelta

from fastapi import Request
from sqlalchemy import func, select
from starlette.responses import Response

from kernelmill.leaderboard import movers, ranking
from kernelmill.leaderboard.api.context import service_of
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.types import now
from kernelmill.web.html import PageRoute, page
from kernelmill.web.pages import model

LEADERS = 5
TILES = 6
WEEK = timedelta(days=7)


def home(request: Request) -> Response:
    service = service_of(request)
    with service.database.read() as connection:
        edition = ranking.edition(connection, None)
        heads = ranking.heads(connection, edition.id)
        models = sorted({head.device_model for head in heads})
        leaders = {
            name: service.ranking.standings(
                connection, edition.id, [head for head in heads if head.device_model == name], "author", None
            )[:LEADERS]
            for name in models
        }
        counts = {
            "definitions": connection.scalar(select(func.count()).where(t.Definition.is_current)),
            "solutions": connection.scalar(
                select(func.count()).where(t.Solution.is_public, t.Solution.hidden_at.is_(None))
            ),
            "devices": len(models),
        }
        moved = movers.movers(connection, edition.id, now() - WEEK, LEADERS)
        device = model.most_judged(heads)
        tiles = model.tiles(service, connection, edition.id, heads, device)
    tiles.sort(key=lambda tile: -tile.part.covered / max(1, tile.part.kernels))
    return page(
        request,
        "home.html",
        edition=edition,
        leaders=leaders,
        counts=counts,
        moved=moved,
        tiles=tiles[:TILES],
        model=device,
    )


ROUTES = [PageRoute("/", home)]
