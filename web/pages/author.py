"""An author: where they stand, how they came there, and what their kernels took to make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fastapi import Request
from pydantic_core import from_json
from sqlalchemy import Connection, func, select
from starlette.responses import Response

from kernelmill.agents.making import Making
from kernelmill.leaderboard import progress, ranking
from kernelmill.leaderboard.api.context import Service, service_of
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.types import AnyRow
from kernelmill.leaderboard.errors import NotFound
from kernelmill.web import sheet
from kernelmill.web.html import PageRoute, Span, page, whole

PAGE = 50
LATEST = 20
"""Steps that the table shows; CSV and API have all."""
MOST_MADE = 2000
SPEEDUP = ("speedup", "speedup_low", "speedup_high")


def author(request: Request) -> Response:
    service, query = service_of(request), request.query_params
    with service.database.read() as connection:
        found = _find(connection, request.path_params["name"])
        edition = ranking.edition(connection, None)
        heads = ranking.heads(connection, edition.id)
        standings = _standings(service, connection, edition.id, heads, found.name)
        model = query.get("device_model") or next(iter(standings), None)
        own = [head for head in heads if head.device_model == model]
        steps = progress.steps(service.progress, connection, edition.id, own, found.name)
        if sheet.wanted(request):
            return _sheet(query.get("table", ""), standings, steps)
        start = whole(query.get("solutions"))
        total, solutions = _solutions(connection, found.id, start)
        made = _made(connection, found.id)
    best = list(standings[model]["best"].items()) if model in standings else []
    first = whole(query.get("start"))
    return page(
        request,
        "author.html",
        author=found,
        standings=standings,
        model=model,
        best=best[first : first + PAGE],
        span=Span(first, PAGE, len(best)),
        steps=steps[-LATEST:][::-1],
        more_steps=max(0, len(steps) - LATEST),
        solutions=solutions,
        listed=Span(start, PAGE, total),
        made=made,
    )


def _find(connection: Connection, name: str) -> AnyRow:
    own = t.Author
    query = select(own.id, own.name, own.kind, own.model, own.harness).where(own.name == name)
    found = connection.execute(query).one_or_none()
    if found is None:
        raise NotFound(f"there is no author {name!r}")
    return found


def _standings(
    service: Service, connection: Connection, edition: int, heads: list[ranking.Head], name: str
) -> dict[str, dict[str, Any]]:
    """By device model, where there is one."""
    found = {}
    for model in sorted({head.device_model for head in heads}):
        own = [head for head in heads if head.device_model == model]
        ranked = service.ranking.standings(connection, edition, own, "author", None)
        if row := next((row for row in ranked if row["name"] == name), None):
            found[model] = row
    return found


def _solutions(connection: Connection, number: int, start: int) -> tuple[int, list[AnyRow]]:
    """How many there are in public, and a page of them, the newest first."""
    own = t.Solution
    shown = own.author_id == number, own.is_public, own.hidden_at.is_(None)
    total = connection.scalar(select(func.count()).where(*shown)) or 0
    query = select(own.name, own.hash, own.definition, own.language, own.created_at).where(*shown)
    rows = connection.execute(query.order_by(own.created_at.desc(), own.hash).offset(start).limit(PAGE)).all()
    return total, list(rows)


def _made(connection: Connection, number: int) -> dict[str, Making]:
    """What agents told of how public solutions came to be, by hash."""
    own = t.Solution
    shown = own.author_id == number, own.is_public, own.hidden_at.is_(None)
    told = own.body.contains("kernelmill agent ", autoescape=True)
    query = select(own.hash, own.body).where(*shown, told).order_by(own.created_at.desc()).limit(MOST_MADE)
    read = {row.hash: Making.read(from_json(row.body).get("description")) for row in connection.execute(query)}
    return {key: making for key, making in read.items() if making}


def _sheet(table: str, standings: Mapping[str, dict[str, Any]], steps: list[dict[str, Any]]) -> Response:
    if table == "progress":
        names = ("at", "definition", "solution")
        deployed = [f"deployed_{name}" for name in SPEEDUP]
        return sheet.sheet("progress", [*names, *SPEEDUP, *deployed], _progress(names, steps))
    return sheet.sheet("author", ["device_model", "definition", "solution", *SPEEDUP], _best(standings))


def _progress(names: Iterable[str], steps: list[dict[str, Any]]) -> Iterator[list[sheet.Cell]]:
    for step in steps:
        told = step["speedup"], step["deployed"]
        yield [*(step[name] for name in names), *(bound for each in told for bound in (each["ratio"], *each["ci95"]))]


def _best(standings: Mapping[str, dict[str, Any]]) -> Iterator[list[sheet.Cell]]:
    for model, row in standings.items():
        for name, best in row["best"].items():
            told = best["speedup"]
            yield [model, name, best["solution"], told["ratio"], *told["ci95"]]


ROUTES = [PageRoute("/authors/{name}", author)]
