"""`/traces`: every verdict that may be seen, as it was written."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy import select

from kernelmill.leaderboard import traces
from kernelmill.leaderboard.api.context import Reader, TheService
from kernelmill.leaderboard.api.models import Page
from kernelmill.leaderboard.api.replies import UNCHANGED, Cursor, Filter, Limit, decode_cursor, page, tagged
from kernelmill.leaderboard.db import tables as t
from kernelmill.trace_schema import Status, Trace, Verdict

router = APIRouter(tags=["traces"], responses=UNCHANGED)


@router.get("/traces", response_model=Page[Trace])
def list_traces(
    request: Request,
    service: TheService,
    who: Reader,
    definition: Filter = None,
    solution: Annotated[str | None, Query(max_length=255, description="A hash, or a name here.")] = None,
    author: Filter = None,
    device_model: Filter = None,
    workload: Annotated[str | None, Query(max_length=255, description="A workload's uuid.")] = None,
    submission: Filter = None,
    status: Status | None = None,
    verdict: Verdict | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """Traces in the order in which they came; every filter narrows."""
    after = decode_cursor(cursor, [int])
    own = t.Trace
    query = traces.visible(select(own.id, own.body), who)
    filters = [
        (own.definition, definition),
        (own.device_model, device_model),
        (own.workload_uuid, workload),
        (own.submission_id, submission),
        (own.status, status.value if status else None),
        (own.verdict, verdict.value if verdict else None),
    ]
    for column, wanted in filters:
        if wanted is not None:
            query = query.where(column == wanted)
    with service.database.read() as connection:
        if solution is not None:
            key = t.Solution.hash if len(solution) == 64 else t.Solution.name
            query = query.where(own.solution_hash == select(t.Solution.hash).where(key == solution).scalar_subquery())
        if author is not None:
            query = query.where(own.author_id == select(t.Author.id).where(t.Author.name == author).scalar_subquery())
        rows, more = traces.bodies(connection, query, after[0] if after else 0, limit)
    return tagged(
        request, page([body for _, body in rows], [rows[-1][0]] if more else None), private=who.id is not None
    )
