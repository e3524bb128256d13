"""A solution, two of them side by side, and who wrote them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fastapi import Request
from sqlalchemy import Connection, Row, select
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from kernelmill.leaderboard import ranking
from kernelmill.leaderboard.api.context import principal, service_of
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.errors import NotFound
from kernelmill.leaderboard.tokens import NOBODY, Principal
from kernelmill.leaderboard.traces import visible
from kernelmill.trace_schema import Solution, Trace
from kernelmill.web import sheet
from kernelmill.web.code import difference, highlight
from kernelmill.web.html import PageRoute, page

TRACES = 200


async def solution(request: Request) -> Response:
    return await run_in_threadpool(_solution, request, await principal(request))


def _solution(request: Request, who: Principal) -> Response:
    service = service_of(request)
    with service.database.read() as connection:
        row = _find(connection, request.path_params["key"], who)
        query = select(t.Trace.id, t.Trace.body).where(t.Trace.solution_hash == row.hash)
        bodies = connection.execute(visible(query, who).order_by(t.Trace.id.desc()).limit(TRACES)).all()
        reports = connection.execute(
            select(t.Report.kind, t.Author.name, t.Report.evidence, t.Report.created_at)
            .join(t.Author, t.Author.id == t.Report.author_id)
            .where(t.Report.solution_hash == row.hash)
            .order_by(t.Report.id)
        ).all()
    parsed = Solution.model_validate_json(row.body)
    return page(
        request,
        "solution.html",
        row=row,
        solution=parsed,
        files=[(path, highlight(path, text)) for path, text in parsed.files.items()],
        traces=[Trace.model_validate_json(each.body) for each in bodies],
        reports=[{**each._mapping, "evidence": json.loads(each.evidence)} for each in reports],
    )


def compare(request: Request) -> Response:
    """Two public solutions: their standing and their difference."""
    service = service_of(request)
    keys = [request.query_params.get(name, "").strip() for name in ("a", "b")]
    if not all(keys):
        return page(request, "compare.html", keys=keys, sides=None, lines=[])
    with service.database.read() as connection:
        found = [_find(connection, key, NOBODY) for key in keys]
        edition = ranking.edition(connection, None)
        sides = [_side(service.ranking, connection, edition.id, row) for row in found]
    files = [Solution.model_validate_json(row.body).files for row in found]
    return page(request, "compare.html", keys=keys, sides=sides, lines=difference(*files))


def _side(ranks: ranking.Ranking, connection: Connection, edition: int, row: Row[Any]) -> dict[str, Any]:
    heads = ranking.heads(connection, edition, definition=row.definition)
    entries = {
        head.device_model: entry
        for head in heads
        for entry in ranks.board(connection, edition, head)["entries"]
        if entry["solution_hash"] == row.hash
    }
    return {"row": row, "entries": entries}


def author(request: Request) -> Response:
    """Somebody's solutions, and how they stand on each definition."""
    service, name = service_of(request), request.path_params["name"]
    with service.database.read() as connection:
        found = connection.execute(
            select(t.Author.id, t.Author.name, t.Author.kind, t.Author.model, t.Author.harness).where(
                t.Author.name == name
            )
        ).one_or_none()
        if found is None:
            raise NotFound(f"there is no author {name!r}")
        edition = ranking.edition(connection, None)
        heads = ranking.heads(connection, edition.id)
        standings = {}
        for model in sorted({head.device_model for head in heads}):
            own = [head for head in heads if head.device_model == model]
            ranked = service.ranking.standings(connection, edition.id, own, "author", None)
            standings[model] = next((row for row in ranked if row["name"] == name), None)
        solutions = connection.execute(
            select(t.Solution.name, t.Solution.hash, t.Solution.definition, t.Solution.language, t.Solution.created_at)
            .where(t.Solution.author_id == found.id, t.Solution.is_public, t.Solution.hidden_at.is_(None))
            .order_by(t.Solution.created_at.desc())
            .limit(TRACES)
        ).all()
    if sheet.wanted(request):
        header = ["device_model", "definition", "solution", "speedup", "speedup_low", "speedup_high"]
        return sheet.sheet("author", header, _best(standings))
    return page(request, "author.html", author=found, standings=standings, solutions=solutions)


def _best(standings: dict[str, dict[str, Any] | None]) -> Iterator[list[sheet.Cell]]:
    for model, row in standings.items():
        for name, best in (row or {"best": {}})["best"].items():
            told = best["speedup"]
            yield [model, name, best["solution"], told["ratio"], *told["ci95"]]


def _find(connection: Connection, key: str, who: Principal) -> Row[Any]:
    own = t.Solution
    query = (
        select(own.__table__, t.Author.name.label("author"))
        .join(t.Author, t.Author.id == own.author_id)
        .where((own.hash == key) | (own.name == key), own.hidden_at.is_(None))
    )
    shown = own.is_public if who.id is None else own.is_public | (own.author_id == who.id)
    row = connection.execute(query if who.is_admin else query.where(shown)).first()
    if row is None:
        raise NotFound(f"there is no solution {key!r}")
    return row


ROUTES = [
    PageRoute("/solutions/{key}", solution),
    PageRoute("/compare", compare),
    PageRoute("/authors/{name}", author),
]
