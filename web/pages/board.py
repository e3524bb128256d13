"""The board: authors, kernels and languages, on one device model in one edition."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from sqlalchemy import select
from starlette.responses import Response

from kernelmill.evaluator.report import charts, wording
from kernelmill.evaluator.statistics import ONE
from kernelmill.leaderboard import ranking
from kernelmill.leaderboard.api.context import service_of
from kernelmill.leaderboard.db import tables as t
from kernelmill.web.html import PageRoute, page, ratio

TABS = {"author": "Authors", "solution": "Kernels", "language": "Languages"}
PAGE = 50


def board(request: Request) -> Response:
    service, query = service_of(request), request.query_params
    by: Any = query.get("by") if query.get("by") in TABS else "author"
    op_type = query.get("op_type") or None
    with service.database.read() as connection:
        edition = ranking.edition(connection, query.get("edition") or None)
        everything = ranking.heads(connection, edition.id)
        models = sorted({head.device_model for head in everything})
        model = query.get("device_model") or (models[0] if models else None)
        heads = [
            head for head in everything if head.device_model == model and (op_type is None or head.op_type == op_type)
        ]
        if by == "solution" or not heads:
            rows = [
                {
                    "definition": head.definition,
                    "op_type": head.op_type,
                    **service.ranking.summary(connection, edition.id, head),
                }
                for head in heads
            ]
        else:
            rows = service.ranking.standings(connection, edition.id, heads, by, op_type)
        editions = list(connection.scalars(select(t.Edition.name).order_by(t.Edition.id.desc())))
    start = _whole(query.get("start"))
    shown = rows[start : start + PAGE]
    axis = charts.ratio_axis(
        each for row in shown if (found := ratio(_speedup(row, by))) for each in (found.point, found.lo, found.hi)
    )
    return page(
        request,
        "board.html",
        by=by,
        tabs=TABS,
        rows=shown,
        start=start,
        more=start + PAGE if len(rows) > start + PAGE else None,
        edition=edition,
        editions=editions,
        models=models,
        model=model,
        op_type=op_type,
        op_types=sorted({head.op_type for head in everything}),
        axis=axis,
        bar=lambda row: charts.bar(axis, ratio(_speedup(row, by)) or ONE),
        made_so=wording.MADE_SO,
    )


def _speedup(row: dict[str, Any], by: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = row["best_mix"]["speedup"] if by == "solution" else row["speedup"]
    return found


def _whole(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 9 else 0


ROUTES = [PageRoute("/leaderboard", board)]
