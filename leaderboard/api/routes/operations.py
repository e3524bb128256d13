"""`/healthz`, `/readyz`, `/metrics`: for those who operate it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from kernelmill.leaderboard.api.context import TheService
from kernelmill.leaderboard.api.metrics import Metrics
from kernelmill.leaderboard.db.engine import DatabaseUnreachable
from kernelmill.leaderboard.db.migrate import check
from kernelmill.leaderboard.errors import Refused
from kernelmill.trace_schema.errors import InternalError

router = APIRouter(tags=["operations"])


class NotReady(Refused):
    status = 503
    title = "Not ready"


@router.get("/healthz", response_model=dict[str, str])
def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz", response_model=dict[str, str])
def readyz(service: TheService) -> dict[str, str]:
    """The database answers, and has the form that this version needs."""
    try:
        check(service.database)
    except DatabaseUnreachable:
        raise
    except InternalError as error:
        raise NotReady(str(error)) from error
    return {"status": "ok"}


@router.get("/metrics", response_class=Response)
def metrics(request: Request, service: TheService) -> Response:
    """In Prometheus' text format."""
    found: Metrics = request.app.state.metrics
    return Response(found.render(service.database, service.waiters.count), media_type=CONTENT_TYPE_LATEST)
