"""A solution: its verdicts, what they rest on, how to serve it, and its source."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from fastapi import Request
from sqlalchemy import Connection, Row, func, select
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from kernelmill.agents.making import Making
from kernelmill.leaderboard import ranking
from kernelmill.leaderboard.api.context import principal, service_of
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.errors import NotFound
from kernelmill.leaderboard.tokens import Principal
from kernelmill.leaderboard.traces import visible
from kernelmill.trace_schema import Definition, Solution, Trace
from kernelmill.web import evidence, sheet
from kernelmill.web.code import highlight
from kernelmill.web.html import PageRoute, Span, page, whole

PAGE = 50
MOST_TRACES = 500
"""The latest of one device: what the page's sums and its chart are of."""
TIMES = ("median_ms", "p10_ms", "p90_ms", "baseline_median_ms", "n", "sessions", "ratio")
HEADER = ("workload", "session", "timestamp", "verdict", *TIMES, "roofline_ms", "floor_ms", "verified_calls")


async def solution(request: Request) -> Response:
    return await run_in_threadpool(_solution, request, await principal(request))


def _solution(request: Request, who: Principal) -> Response:
    query = request.query_params
    with service_of(request).database.read() as connection:
        row = find(connection, request.path_params["key"], who)
        counts = _counts(connection, row.hash, who)
        devices = sorted(counts, key=lambda model: (-counts[model].total(), model))
        model = query.get("device_model") or (devices[0] if devices else None)
        traces = _traces(connection, row.hash, model, who)
        reports = _reports(connection, row.hash)
        standing = side(connection, ranking.edition(connection, None).id, row)["entries"].get(model)
        body = connection.scalar(
            select(t.Definition.body).where(t.Definition.name == row.definition, t.Definition.is_current)
        )
    if sheet.wanted(request):
        return sheet.sheet("verdicts", HEADER, map(_line, traces))
    parsed = Solution.model_validate_json(row.body)
    start = whole(query.get("start"))
    return page(
        request,
        "solution.html",
        row=row,
        solution=parsed,
        making=Making.read(parsed.description),
        inputs=list(Definition.model_validate_json(body).inputs) if body else [],
        files=[(path, highlight(path, text)) for path, text in parsed.files.items()],
        devices=devices,
        model=model,
        traces=traces[start : start + PAGE],
        span=Span(start, PAGE, len(traces)),
        older=max(0, counts[model].total() - len(traces)) if model in counts else 0,
        checks=evidence.checks(traces, sum(counts.values(), Counter())),
        sittings=evidence.sittings(traces),
        standing=standing,
        reports=reports,
    )


def _counts(connection: Connection, key: str, who: Principal) -> dict[str, Counter[str]]:
    """How many verdicts of each kind, by device model."""
    own = t.Trace
    query = select(own.device_model, own.verdict, func.count()).where(own.solution_hash == key)
    found: dict[str, Counter[str]] = {}
    for model, verdict, count in connection.execute(visible(query, who).group_by(own.device_model, own.verdict)):
        found.setdefault(model, Counter())[verdict] = count
    return found


def _traces(connection: Connection, key: str, model: str | None, who: Principal) -> list[Trace]:
    """The latest sitting first."""
    own = t.Trace
    query = select(own.body).where(own.solution_hash == key, own.device_model == model)
    bodies = connection.scalars(visible(query, who).order_by(own.id.desc()).limit(MOST_TRACES))
    return evidence.ordered([Trace.model_validate_json(body) for body in bodies])


def _reports(connection: Connection, key: str) -> list[dict[str, Any]]:
    rows = connection.execute(
        select(t.Report.kind, t.Author.name, t.Report.evidence, t.Report.created_at)
        .join(t.Author, t.Author.id == t.Report.author_id)
        .where(t.Report.solution_hash == key)
        .order_by(t.Report.id)
    )
    return [{**each._mapping, "evidence": json.loads(each.evidence)} for each in rows]


def _line(trace: Trace) -> Sequence[sheet.Cell]:
    judged = trace.evaluation
    assert judged is not None
    times, rests_on, subject = judged.statistics, judged.evidence, judged.subject
    session = subject.session if subject else None
    return [
        trace.workload.uuid,
        session,
        judged.timestamp,
        str(judged.effective_verdict),
        *(getattr(times, name, None) for name in TIMES),
        *(getattr(rests_on, name, None) for name in ("roofline_ms", "floor_ms", "verified_calls")),
    ]


def side(connection: Connection, edition: int, row: Row[Any]) -> dict[str, Any]:
    """A solution's row and its entries by device model."""
    heads = ranking.heads(connection, edition, definition=row.definition)
    entries = ranking.entries_with(connection, edition, heads, solution_hash=row.hash)
    return {"row": row, "entries": {head.device_model: entry for head, entry in entries}}


def find(connection: Connection, key: str, who: Principal) -> Row[Any]:
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
]
