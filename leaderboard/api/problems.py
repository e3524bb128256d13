"""Errors as problem+json (RFC 9457). What went wrong inside is logged under the request's id, and never told."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy.exc import DataError
from starlette.exceptions import HTTPException

from kernelmill.leaderboard.api.watchman import HEADERS
from kernelmill.leaderboard.db.engine import DatabaseUnreachable
from kernelmill.leaderboard.errors import FieldFault, Invalid, Refused

MEDIA = "application/problem+json"
Handler = Callable[[Request, Exception], Awaitable[Response]]
REFERENCE = {"$ref": "#/components/schemas/Problem"}
LONGEST_VALUE = 200
MOST_FAULTS = 50
_log = logging.getLogger("kernelmill.api")


class FieldError(BaseModel):
    """One field of the request that can't be accepted."""

    field: str
    message: str


class Problem(BaseModel):
    """What went wrong, and what to do."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    request_id: str | None = None
    errors: list[FieldError] | None = None


def reply(
    request: Request,
    status: int,
    title: str,
    detail: str,
    *,
    faults: tuple[FieldFault, ...] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
        "request_id": getattr(request.state, "request_id", None),
    }
    if faults:
        body["errors"] = [{"field": fault.field, "message": fault.message} for fault in faults]
    return JSONResponse(body, status, headers=dict(headers or {}), media_type=MEDIA)


def install(app: FastAPI) -> None:
    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(RequestValidationError, _unreadable)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(DatabaseUnreachable, _away)
    app.add_exception_handler(DataError, _unstorable)
    app.add_exception_handler(Exception, _fault)


async def refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refused)
    headers = {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(int(error.retry_after_s) + 1)
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    faults = error.faults if isinstance(error, Invalid) else ()
    return reply(request, error.status, error.title, error.detail, faults=faults, headers=headers)


async def _unreadable(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    faults = tuple(FieldFault(_path(each["loc"]), _message(each)) for each in error.errors()[:MOST_FAULTS])
    first = faults[0]
    return reply(request, 422, "Invalid request", f"{first.field}: {first.message}", faults=faults)


async def http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return reply(request, error.status_code, "Request refused", str(error.detail), headers=error.headers)


async def _away(request: Request, error: Exception) -> JSONResponse:
    _log.error("database away: %s", error, extra=_who(request))
    detail = "the database does not answer; nothing was acknowledged, try again"
    return reply(request, 503, "Not available", detail, headers={"Retry-After": "2"})


async def _unstorable(request: Request, error: Exception) -> JSONResponse:
    _log.warning("unstorable value: %s", type(error).__name__, extra=_who(request))
    return reply(request, 422, "Invalid request", "a value can't be stored; leave out NUL characters and huge numbers")


async def _fault(request: Request, error: Exception) -> JSONResponse:
    """Answered outside of every layer, `Watchman` included, so it brings its headers itself."""
    _log.exception("fault of ours", exc_info=error, extra=_who(request))
    headers = {**HEADERS, "x-request-id": request.state.request_id}
    detail = "the service failed at this request; tell its operator the request_id"
    return reply(request, 500, "Our fault", detail, headers=headers)


def _path(location: tuple[int | str, ...]) -> str:
    """`solution.sources.0.path`: where it lies in the body, or the parameter's name."""
    parts = [str(part) for part in location[1:]] or [str(part) for part in location]
    return ".".join(parts)


def _message(error: Mapping[str, Any]) -> str:
    message = str(error["msg"]).removeprefix("Value error, ")
    value = error.get("input")
    if isinstance(value, str | int | float | bool) and error["type"] != "missing":
        message += f" (got {str(value)[:LONGEST_VALUE]!r})"
    return message


def _who(request: Request) -> dict[str, Any]:
    return {"request_id": getattr(request.state, "request_id", None), "path": request.url.path}
