"""Two solutions side by side, or two authors on every definition that one of them has a best kernel for."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from sqlalchemy import Connection, select
from starlette.responses import Response

from kernelmill.leaderboard import ranking
from kernelmill.leaderboard.api.context import Service, service_of
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.tokens import NOBODY
from kernelmill.trace_schema import Solution
from kernelmill.web.code import difference
from kernelmill.web.html import PageRoute, Span, page, whole
from kernelmill.web.pages.solution import find, side

PAGE = 50


def compare(request: Request) -> Response:
    """Names of two authors, or names or hashes of two public solutions."""
    service = service_of(request)
    keys = [request.query_params.get(name, "").strip() for name in ("a", "b")]
    shown: dict[str, Any] = {"keys": keys, "sides": None, "lines": [], "authors": None}
    if not all(keys):
        return page(request, "compare.html", **shown)
    with service.database.read() as connection:
        edition = ranking.edition(connection, None).id
        if _are_authors(connection, keys):
            return page(request, "compare.html", **shown | _authors(service, connection, edition, keys, request))
        found = [find(connection, key, NOBODY) for key in keys]
        shown["sides"] = [side(connection, edition, row) for row in found]
    shown["lines"] = difference(*(Solution.model_validate_json(row.body).files for row in found))
    return page(request, "compare.html", **shown)


def _are_authors(connection: Connection, keys: list[str]) -> bool:
    known = set(connection.scalars(select(t.Author.name).where(t.Author.name.in_(keys))))
    return known >= set(keys)


def _authors(
    service: Service, connection: Connection, edition: int, keys: list[str], request: Request
) -> dict[str, Any]:
    """Of one device model: where both stand, and their best kernels by definition."""
    heads = ranking.heads(connection, edition)
    models = sorted({head.device_model for head in heads})
    model = request.query_params.get("device_model") or (models[0] if models else None)
    own = [head for head in heads if head.device_model == model]
    ranked = service.ranking.standings(connection, edition, own, "author", None) if own else []
    by_name = {row["name"]: row for row in ranked}
    rows = [by_name.get(key) for key in keys]
    best = [row["best"] if row else {} for row in rows]
    names = sorted({name for each in best for name in each})
    start = whole(request.query_params.get("start"))
    return {
        "authors": list(zip(keys, rows, strict=True)),
        "models": models,
        "model": model,
        "pairs": [(name, [each.get(name) for each in best]) for name in names[start : start + PAGE]],
        "span": Span(start, PAGE, len(names)),
    }


ROUTES = [PageRoute("/compare", compare)]
