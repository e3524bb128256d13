"""The public FlashInfer-Bench server's routes, at the root, with its shapes: its clients run unchanged.

Not its `/shutdown`. Where auth is on, what changes something needs a token. An evaluation asked for here is a private
run: its traces are returned, as there, and nothing goes on the board.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field
from sqlalchemy import Connection, func, select
from starlette.concurrency import run_in_threadpool

import kernelmill
from kernelmill.leaderboard import catalog, submissions
from kernelmill.leaderboard.api import examples
from kernelmill.leaderboard.api.context import Reader, Service, Submitter, TheService
from kernelmill.leaderboard.api.models import Bounded, Uuid
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.types import AnyRow, now
from kernelmill.leaderboard.errors import NotFound, Refused
from kernelmill.leaderboard.submissions import TERMINAL
from kernelmill.leaderboard.tokens import Principal
from kernelmill.trace_schema import Definition, Solution, Workload

router = APIRouter(tags=["public benchmark server"])
LONGEST_WAIT_S = 3600.0
POLL_S = 0.1
FRESH_S = 60.0
STATUS = {"queued": "pending", "building": "running", "judging": "running", "done": "completed"}
ENDPOINTS = (
    ("GET", "/health", "Health of the service and its devices"),
    ("GET", "/definitions", "All definitions"),
    ("GET", "/definitions/{name}", "One definition"),
    ("GET", "/definitions/{name}/workloads", "Its workloads"),
    ("GET", "/workloads/{uuid}", "One workload"),
    ("POST", "/evaluate", "Evaluate a solution"),
    ("GET", "/tasks/{task_id}", "An evaluation's status and traces"),
    ("POST", "/tasks/batch", "Several evaluations"),
)


class EvaluateRequest(Bounded):
    """A solution, and on which workloads; on all without."""

    model_config = examples.shown({"solution": examples.SOLUTION})
    solution: Solution
    workload_uuids: list[Uuid] | None = None


class EvaluateReply(BaseModel):
    task_id: str
    normalized_solution_name: str


class BatchRequest(Bounded):
    """Which evaluations, and how many seconds to wait for the last of them."""

    model_config = examples.shown({"task_ids": ["9f0c4f4e0f0d4a0bb0f6b2f3a9d1c7e5"], "timeout": 60})
    task_ids: Annotated[list[str], Field(max_length=1000)]
    timeout: Annotated[float, Field(ge=0, le=LONGEST_WAIT_S)] = 0


class TaskView(BaseModel):
    task_id: str
    status: str
    definition: str
    solution: str
    traces: list[dict[str, Any]] | None
    error: str | None


@router.get("/", response_model=dict[str, Any])
def index() -> dict[str, Any]:
    """What there is."""
    listed = [{"method": method, "path": path, "description": text} for method, path, text in ENDPOINTS]
    return {"name": "KernelMill", "version": kernelmill.__version__, "docs": "/openapi.json", "endpoints": listed}


@router.get("/health", response_model=dict[str, Any])
def health(service: TheService) -> dict[str, Any]:
    """Devices, and how many submissions wait."""
    with service.database.read() as connection:
        own = t.Device
        offered = select(own.model, own.seen_at).where(own.seen_at.is_not(None)).order_by(own.model)
        devices = connection.execute(offered).all()
        waiting = connection.scalar(
            select(func.count()).select_from(t.Submission).where(t.Submission.state == "queued")
        )
    workers = [{"device": row.model, "healthy": (now() - row.seen_at).total_seconds() < FRESH_S} for row in devices]
    return {"status": "ok", "workers": workers, "queue_size": waiting}


@router.get("/definitions", response_model=list[dict[str, str | None]])
def list_definitions(service: TheService, who: Reader) -> Response:
    """All of them, by name."""
    with service.database.read() as connection:
        rows = connection.execute(
            select(t.Definition.name, t.Definition.description)
            .where(t.Definition.is_current)
            .order_by(t.Definition.name)
        ).all()
    return _json(json.dumps([{"name": row.name, "description": row.description} for row in rows]))


@router.get("/definitions/{name}", response_model=Definition)
def get_definition(service: TheService, who: Reader, name: str) -> Response:
    """One definition."""
    with service.database.read() as connection:
        return _json(_definition(connection, name))


@router.get("/definitions/{name}/workloads", response_model=list[Workload])
def list_workloads(service: TheService, who: Reader, name: str) -> Response:
    """Its public workloads."""
    with service.database.read() as connection:
        _definition(connection, name)
        query = select(t.Workload.body).where(
            t.Workload.definition == name, t.Workload.is_current, t.Workload.split != catalog.HIDDEN
        )
        bodies = connection.scalars(query.order_by(t.Workload.position)).all()
    return _json(f"[{','.join(bodies)}]")


@router.get("/workloads/{uuid}", response_model=Workload)
def get_workload(service: TheService, who: Reader, uuid: str) -> Response:
    """One public workload."""
    with service.database.read() as connection:
        query = select(t.Workload.body).where(
            t.Workload.uuid == uuid, t.Workload.is_current, t.Workload.split != catalog.HIDDEN
        )
        body = connection.scalar(query.limit(1))
    if body is None:
        raise NotFound(f"Workload not found: {uuid}")
    return _json(body)


@router.post("/evaluate", response_model=EvaluateReply)
def evaluate(service: TheService, who: Submitter, payload: EvaluateRequest) -> Response:
    """Queue a private run; uuids that are not the definition's are left out, as the public server does."""
    name = payload.solution.definition
    with service.database.write() as connection:
        if (
            connection.scalar(select(t.Definition.name).where(t.Definition.name == name, t.Definition.is_current))
            is None
        ):
            raise Refused(f"Definition not found: {name}")
        uuids = _known(connection, name, payload.workload_uuids)
        wanted = submissions.Request(payload.solution, workload_uuids=uuids, ranked=False)
        done = submissions.accept(connection, wanted, who, per_hour=service.settings.quota_per_hour)
    return _json(json.dumps({"task_id": done.id, "normalized_solution_name": done.solution_name}))


@router.get("/tasks/{task_id}", response_model=TaskView)
async def get_task(
    service: TheService,
    who: Reader,
    task_id: str,
    timeout: Annotated[float, Field(ge=0, le=LONGEST_WAIT_S)] = 0,
) -> Response:
    """An evaluation; with `timeout` once it has ended, or after so many seconds."""
    return _json(json.dumps((await _tasks(service, who, [task_id], timeout))[0]), private=True)


@router.post("/tasks/batch", response_model=list[TaskView])
async def get_tasks(service: TheService, who: Reader, payload: BatchRequest) -> Response:
    """Several, in the order in which they are asked for."""
    return _json(json.dumps(await _tasks(service, who, payload.task_ids, payload.timeout)), private=True)


async def _tasks(service: Service, who: Principal, numbers: list[str], timeout: float) -> list[dict[str, Any]]:
    deadline = time.monotonic() + timeout
    found = await run_in_threadpool(_look, service, who, numbers)
    if not timeout or not _is_open(found):
        return found
    with service.waiters.one_more():
        while _is_open(found) and time.monotonic() < deadline:
            await asyncio.sleep(min(POLL_S, max(0.01, deadline - time.monotonic())))
            found = await run_in_threadpool(_look, service, who, numbers)
    return found


def _is_open(tasks: list[dict[str, Any]]) -> bool:
    return any(task["status"] in ("pending", "running") for task in tasks)


def _look(service: Service, who: Principal, numbers: list[str]) -> list[dict[str, Any]]:
    with service.database.read() as connection:
        return [_task(connection, _submission(connection, number, who)) for number in numbers]


def _submission(connection: Connection, number: str, who: Principal) -> AnyRow:
    try:
        return submissions.find(connection, number, who)
    except NotFound:
        raise NotFound(f"Task not found: {number}") from None


def _task(connection: Connection, row: AnyRow) -> dict[str, Any]:
    query = select(t.Trace.body).where(
        t.Trace.submission_id == (row.duplicate_of or row.id), t.Trace.is_hidden.is_(False)
    )
    ended = row.state in TERMINAL
    bodies = connection.scalars(query.order_by(t.Trace.id)).all() if ended else []
    return {
        "task_id": row.id,
        "status": STATUS.get(row.state, "failed"),
        "definition": row.definition,
        "solution": row.stored_name,
        "traces": [json.loads(body) for body in bodies] or None,
        "error": (row.reason or row.state) if row.state in ("failed", "cancelled") else None,
    }


def _definition(connection: Connection, name: str) -> str:
    body = connection.scalar(select(t.Definition.body).where(t.Definition.name == name, t.Definition.is_current))
    if body is None:
        raise NotFound(f"Definition not found: {name}")
    return body


def _known(connection: Connection, definition: str, uuids: list[str] | None) -> list[str] | None:
    if uuids is None:
        return None
    query = select(t.Workload.uuid).where(
        t.Workload.definition == definition, t.Workload.is_current, t.Workload.split != catalog.HIDDEN
    )
    known = set(connection.scalars(query))
    return [uuid for uuid in uuids if uuid in known]


def _json(body: str, *, private: bool = False) -> Response:
    headers = {"Cache-Control": "private, no-cache" if private else "no-cache"}
    return Response(body, media_type="application/json", headers=headers)
