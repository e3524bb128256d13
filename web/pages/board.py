"""The board: authors (agents, people), kernels and languages, on one device model in one edition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from fastapi import Request
from sqlalchemy import select
from starlette.responses import Response

from kernelmill.evaluator.report import charts, wording
from kernelmill.evaluator.statistics import ONE
from kernelmill.leaderboard import ranking
from kernelmill.leaderboard.api.context import service_of
from kernelmill.leaderboard.db import tables as t
from kernelmill.web import sheet
from kernelmill.web.html import PageRoute, Span, page, ratio, whole

TABS = {
    "author": "Authors",
    "agent": "Agents",
    "person": "People",
    "solution": "Kernels",
    "language": "Languages",
}
PAGE = 50
SPEEDUP = ("speedup", "speedup_low", "speedup_high")
WRONG = frozenset({"INCORRECT_SHAPE", "INCORRECT_DTYPE", "INCORRECT_NUMERICAL"})


def board(request: Request) -> Response:
    service, query = service_of(request), request.query_params
    tab = query.get("by", "author")
    tab = tab if tab in TABS else "author"
    by: Any = "author" if tab in ("agent", "person") else tab
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
            summaries = service.ranking.summaries(connection, edition.id, heads)
            rows = [
                {"definition": head.definition, "op_type": head.op_type, **summary}
                for head, summary in zip(heads, summaries, strict=True)
            ]
        else:
            rows = service.ranking.standings(connection, edition.id, heads, by, op_type)
        if tab in ("agent", "person"):
            kind = set(connection.scalars(select(t.Author.name).where(t.Author.kind == tab)))
            rows = [row for row in rows if row["name"] in kind]
        if tab == "language":
            summaries = service.ranking.summaries(connection, edition.id, heads)
            rows = [{**row, "verdicts": _verdicts(row["name"], summaries)} for row in rows]
        editions = list(connection.scalars(select(t.Edition.name).order_by(t.Edition.id.desc())))
    if sheet.wanted(request):
        return sheet.sheet("board", ["name", *SPEEDUP, "log_gain", "improved", "attempted", "rank"], map(_line, rows))
    start = whole(query.get("start"))
    shown = rows[start : start + PAGE]
    axis = charts.ratio_axis(
        each for row in shown if (found := ratio(_speedup(row, by))) for each in (found.point, found.lo, found.hi)
    )
    return page(
        request,
        "board.html",
        by=by,
        tab=tab,
        tabs=TABS,
        rows=shown,
        span=Span(start, PAGE, len(rows)),
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


def _line(row: dict[str, Any]) -> list[sheet.Cell]:
    """Of kernels those columns stay empty that only authors and languages have."""
    by = "solution" if "best_mix" in row else "author"
    told = _speedup(row, by) or {"ratio": None, "ci95": (None, None)}
    name = row["definition"] if by == "solution" else row["name"]
    rest = (row.get(column) for column in ("log_gain", "improved", "attempted", "rank"))
    return [name, told["ratio"], *told["ci95"], *rest]


def _verdicts(language: str, summaries: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Shares of a language's verdicts: passed, failed to build, wrong, and whatever else went wrong."""
    counts = Counter[str]()
    for summary in summaries:
        counts.update(summary["languages"].get(language, {}))
    total = max(1, counts.total())
    wrong = sum(counts[verdict] for verdict in WRONG)
    shares = {"passed": counts["PASSED"], "build": counts["COMPILE_ERROR"], "wrong": wrong}
    shares["other"] = counts.total() - sum(shares.values())
    return {name: count / total for name, count in shares.items()}


def _speedup(row: dict[str, Any], by: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = row["best_mix"]["speedup"] if by == "solution" else row["speedup"]
    return found


ROUTES = [PageRoute("/leaderboard", board)]
