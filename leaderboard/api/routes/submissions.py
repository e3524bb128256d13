"""`/submissions`: hand in, watch, cancel."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from sqlalchemy import Connection, select
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from kernelmill.leaderboard import events, submissions, views
from kernelmill.leaderboard.api.context import Reader, Service, Submitter, TheService
from kernelmill.leaderboard.api.models import Page, State, SubmissionAccepted, SubmissionRequest, SubmissionView
from kernelmill.leaderboard.api.replies import UNCHANGED, Cursor, Filter, Key, Limit, decode_cursor, once, page, tagged
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.engine import DatabaseUnreachable
from kernelmill.leaderboard.errors import Invalid, TooMany
from kernelmill.leaderboard.submissions import TERMINAL
from kernelmill.leaderboard.tokens import Principal

router = APIRouter(tags=["submissions"])
POLL_S = 0.25
PLACE_S = 1.0
"""How often a watcher is told of a new place in the queue."""
LONGEST_WAIT_S = 60.0
EVENT = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"enum": ["state", "verdict", "note", "position"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
        "id": {"type": "string"},
    },
}


@router.post("/submissions", status_code=202, response_model=SubmissionAccepted)
def submit(
    request: Request, service: TheService, who: Submitter, payload: SubmissionRequest, key: Key = None
) -> Response:
    """Hand in a solution. It is on the disk when this answers, and will be judged whatever happens to the service."""

    def work(connection: Connection) -> tuple[int, dict[str, Any]]:
        wanted = submissions.Request(payload.solution, payload.device_model, payload.workload_uuids, payload.ranked)
        done = submissions.accept(connection, wanted, who, per_hour=service.settings.quota_per_hour)
        return 202, {**views.see(connection, done.id, who), "notes": done.notes}

    reply = once(service.database, who, key, request, payload, work)
    reply.headers["Location"] = json.loads(bytes(reply.body))["links"]["self"]
    return reply


@router.get("/submissions", response_model=Page[SubmissionView], responses=UNCHANGED)
def list_submissions(
    request: Request,
    service: TheService,
    who: Reader,
    author: Filter = None,
    state: State | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """The newest first: ranked ones, and one's own."""
    after = decode_cursor(cursor, [str, str])
    own = t.Submission
    query = select(own.id, own.created_at).join(t.Author, t.Author.id == own.author_id)
    if not who.is_admin:
        query = query.where(own.is_ranked if who.id is None else own.is_ranked | (own.author_id == who.id))
    if author is not None:
        query = query.where(t.Author.name == author)
    if state is not None:
        query = query.where(own.state == state)
    if after is not None:
        at, number = _moment(after[0]), after[1]
        query = query.where((own.created_at < at) | ((own.created_at == at) & (own.id < number)))
    with service.database.read() as connection:
        rows = connection.execute(query.order_by(own.created_at.desc(), own.id.desc()).limit(limit + 1)).all()
        items = [json.dumps(views.see(connection, row.id, who)) for row in rows[:limit]]
    last = rows[limit - 1] if len(rows) > limit else None
    following = [last.created_at.isoformat(), last.id] if last else None
    return tagged(request, page(items, following), private=who.id is not None)


@router.get("/submissions/{id}", response_model=SubmissionView, responses=UNCHANGED)
async def get_submission(
    request: Request,
    service: TheService,
    who: Reader,
    id: str,
    wait_s: Annotated[float, Query(ge=0, le=LONGEST_WAIT_S, description="Answer when it has ended, or so late.")] = 0,
) -> Response:
    """How it stands."""
    view = await run_in_threadpool(_see, service, id, who)
    if wait_s and view["state"] not in TERMINAL:
        with service.waiters.one_more():
            deadline = time.monotonic() + wait_s
            while view["state"] not in TERMINAL and time.monotonic() < deadline:
                await asyncio.sleep(min(POLL_S, max(0.01, deadline - time.monotonic())))
                view = await run_in_threadpool(_see, service, id, who)
    return tagged(request, json.dumps(view), private=True)


@router.delete("/submissions/{id}", response_model=SubmissionView)
def cancel(service: TheService, who: Submitter, id: str) -> Response:
    """Take it back: at once while it waits; while it is judged the state changes a moment later."""
    with service.database.write() as connection:
        submissions.cancel(connection, id, who)
        view = views.see(connection, id, who)
    return Response(json.dumps(view), media_type="application/json")


@router.get(
    "/submissions/{id}/events",
    response_class=EventSourceResponse,
    responses={200: {"content": {"text/event-stream": {"schema": EVENT}}}},
)
async def watch(
    request: Request,
    service: TheService,
    who: Reader,
    id: str,
    last: Annotated[str | None, Header(alias="Last-Event-ID", max_length=30)] = None,
) -> EventSourceResponse:
    """Server-sent events until it has ended: `position` carries no id to resume by, the others do."""
    after = int(last) if last and last.isascii() and last.isdigit() and len(last) < 19 else 0
    await run_in_threadpool(_see, service, id, who)
    service.waiters.check()
    return EventSourceResponse(_stream(request, service, who, id, after), ping=15)


async def _stream(
    request: Request, service: Service, who: Principal, number: str, after: int
) -> AsyncIterator[ServerSentEvent]:
    """Events as they are written. `position` is looked at now and then, and told when it has changed.

    It ends early where it can't go on: who watches comes back, and resumes.
    """
    with suppress(TooMany, DatabaseUnreachable), service.waiters.one_more():
        told: dict[str, Any] | None = None
        next_look = 0.0
        while not await request.is_disconnected():
            found = await run_in_threadpool(_events, service, number, after)
            for event in found:
                after = event.id
                yield ServerSentEvent(event.data, event=event.kind, id=str(event.id))
            if any(event.kind == "state" and json.loads(event.data)["state"] in TERMINAL for event in found):
                return
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + PLACE_S
                view = await run_in_threadpool(_see, service, number, who)
                place = {name: view[name] for name in ("state", "position", "eta_s")}
                if view["state"] in TERMINAL and not await run_in_threadpool(_events, service, number, after):
                    return
                if told is None or {**place, "eta_s": 0} != {**told, "eta_s": 0}:
                    told = place
                    yield ServerSentEvent(json.dumps(place), event="position")
            await asyncio.sleep(POLL_S)


def _see(service: Service, number: str, who: Principal) -> dict[str, Any]:
    with service.database.read() as connection:
        return views.see(connection, number, who)


def _events(service: Service, number: str, after: int) -> list[events.Told]:
    with service.database.read() as connection:
        return events.after(connection, number, after)


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Invalid("cursor", "it is of no page; start without one") from None
