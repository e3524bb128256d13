"""A definition: what is computed, on which workloads, and who does it best."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fastapi import Request
from sqlalchemy import Connection, select
from starlette.responses import Response

from kernelmill.evaluator.report import charts
from kernelmill.evaluator.statistics import ONE
from kernelmill.leaderboard import architectures, catalog, ranking
from kernelmill.leaderboard.api.context import Service, service_of
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.errors import NotFound
from kernelmill.leaderboard.heat import heat_of
from kernelmill.trace_schema import Definition, Workload
from kernelmill.web import sheet
from kernelmill.web.code import highlight
from kernelmill.web.html import PageRoute, Span, page, ratio, whole
from kernelmill.web.pages.model import most_judged

HEAT_COLUMNS = 16
PAGE = 50
LISTED = 200
"""Definitions of one page of the list."""


def listing(request: Request) -> Response:
    """All definitions, a page at a time, and what the best mix gains where one is judged."""
    service, op_type = service_of(request), request.query_params.get("op_type")
    query = select(t.Definition.name, t.Definition.op_type, t.Definition.description).where(t.Definition.is_current)
    with service.database.read() as connection:
        found = sorted(connection.execute(query), key=lambda row: (row.op_type, _natural(row.name)))
        edition = ranking.edition(connection, None) if found else None
        heads = ranking.heads(connection, edition.id) if edition else []
        device = request.query_params.get("device_model") or most_judged(heads)
        own = [head for head in heads if head.device_model == device]
        judged = architectures.summaries(service.ranking, connection, edition.id, own) if edition else {}
    shown = [row for row in found if not op_type or row.op_type == op_type]
    start = whole(request.query_params.get("start"))
    return page(
        request,
        "definitions.html",
        rows=shown[start : start + LISTED],
        span=Span(start, LISTED, len(shown)),
        op_types=sorted({row.op_type for row in found}),
        op_type=op_type,
        devices=sorted({head.device_model for head in heads}),
        device=device,
        judged=judged,
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """Numbers in a name by their size: h128 before h4096."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name)]


def definition(request: Request) -> Response:
    service, name = service_of(request), request.path_params["name"]
    start = whole(request.query_params.get("start"))
    with service.database.read() as connection:
        body = connection.scalar(select(t.Definition.body).where(t.Definition.name == name, t.Definition.is_current))
        if body is None:
            raise NotFound(f"there is no definition {name!r}")
        edition = ranking.edition(connection, None)
        heads = ranking.heads(connection, edition.id, definition=name)
        models = [head.device_model for head in heads]
        model = request.query_params.get("device_model") or (models[0] if models else None)
        head = next((head for head in heads if head.device_model == model), None)
        if sheet.wanted(request):
            return _sheet(service, connection, edition.id, head)
        workloads = _workloads(connection, name)
        board = service.ranking.board(connection, edition.id, head, start + PAGE) if head else None
        heat = _heat(service, connection, edition.id, head, board, start) if head and board else None
    entries = board["entries"] if board else []
    shown = entries[start : start + PAGE]
    axis = charts.ratio_axis(
        each for row in shown if (found := ratio(row["speedup"])) for each in (found.point, found.lo, found.hi)
    )
    parsed = Definition.model_validate_json(body)
    return page(
        request,
        "definition.html",
        definition=parsed,
        users=architectures.users().get(name, ()),
        reference=highlight("reference.py", parsed.reference),
        workloads=workloads,
        models=models,
        model=model,
        board=board,
        entries=shown,
        span=Span(start, PAGE, len(entries)),
        heat=heat,
        axis=axis,
        bar=lambda row: charts.bar(axis, ratio(row["speedup"]) or ONE, row["geomean"]),
    )


def _workloads(connection: Connection, name: str) -> list[Workload]:
    query = select(t.Workload.body).where(
        t.Workload.definition == name, t.Workload.is_current, t.Workload.split != catalog.HIDDEN
    )
    return [Workload.model_validate_json(text) for text in connection.scalars(query.order_by(t.Workload.position))]


def _heat(
    service: Service, connection: Connection, edition: int, head: ranking.Head, board: dict[str, Any], start: int
) -> dict[str, Any] | None:
    """A page of rows, on the heaviest workloads that any of them was judged on; CSV and API have all."""

    def make() -> dict[str, Any] | None:
        heat = heat_of(connection, edition, head, board, start, start + PAGE)
        if heat is None:
            return None
        judged = {at for row in heat["rows"] for at, cell in enumerate(row["cells"]) if cell}
        heaviest = sorted(judged, key=lambda at: -(heat["workloads"][at]["weight"] or 1))
        kept = sorted(heaviest[:HEAT_COLUMNS])
        return {
            "total": len(heat["workloads"]),
            "workloads": [heat["workloads"][at] for at in kept],
            "rows": [
                {**row, "cells": [_cell(row["cells"][at], heat["workloads"][at]) for at in kept]}
                for row in heat["rows"]
            ],
        }

    found: dict[str, Any] | None = service.heat.get(("page", edition, head, start), make)
    return found


def _cell(cell: dict[str, Any] | None, workload: dict[str, Any]) -> dict[str, Any] | None:
    """With the class of its colour: how many times as fast, in steps that the eye can tell apart."""
    if cell is None:
        return None
    told = {**cell, "reached": _reached(cell, workload)}
    found = ratio(cell["ratio"])
    if found is None:
        return {**told, "step": "failed" if cell["verdict"] != "PASSED" else "none", "point": None}
    steps = (0.5, 0.8, 0.95, 1.05, 1.25, 2.0)
    return {**told, "step": f"h{sum(found.point >= step for step in steps)}", "point": found.point}


def _reached(cell: dict[str, Any], workload: dict[str, Any]) -> dict[str, float | None] | None:
    """Share of the roofline, bytes/s and FLOP/s (None where nobody wrote the operations down) of a timed call."""
    if not cell["solution_ms"] or not cell["roofline_ms"]:
        return None
    seconds = cell["solution_ms"] / 1e3
    flops = workload["flops"] / seconds if workload["flops"] else None
    return {"share": cell["roofline_ms"] / cell["solution_ms"], "bytes": workload["bytes"] / seconds, "flops": flops}


TIMES = ("solution_ms", "roofline_ms")
HEADER = ("solution", "workload", "verdict", "ratio", "ratio_low", "ratio_high", *TIMES, "bytes", "flops")


def _ratios(heat: dict[str, Any]) -> Iterator[list[sheet.Cell]]:
    """Every solution on every public workload that it was judged on."""
    for row in heat["rows"]:
        for workload, cell in zip(heat["workloads"], row["cells"], strict=True):
            if cell is not None:
                told = cell["ratio"] or {"ratio": None, "ci95": (None, None)}
                rest = [*(cell[each] for each in TIMES), workload["bytes"], workload["flops"]]
                yield [row["solution"], workload["uuid"], cell["verdict"], told["ratio"], *told["ci95"], *rest]


def _sheet(service: Service, connection: Connection, edition: int, head: ranking.Head | None) -> Response:
    board = service.ranking.board(connection, edition, head) if head else None
    heat = heat_of(connection, edition, head, board) if head and board else None
    return sheet.sheet("ratios", HEADER, _ratios(heat) if heat else [])


ROUTES = [PageRoute("/definitions", listing), PageRoute("/definitions/{name}", definition)]
