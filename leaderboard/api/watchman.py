"""Around every request: an id, a line in the log, its time in the metrics, and headers that browsers obey."""

from __future__ import annotations

import logging
import re
import time
import uuid

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernelmill.leaderboard.api.metrics import Metrics

HEADERS = {"x-content-type-options": "nosniff", "x-frame-options": "DENY", "referrer-policy": "same-origin"}
_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_log = logging.getLogger("kernelmill.requests")


class Watchman:
    """A plain ASGI layer: streams pass through it unbuffered."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"x-request-id", b"")
        number = given.decode() if _ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = number
        own = [(name.encode(), value.encode()) for name, value in {**HEADERS, "x-request-id": number}.items()]
        start, status = time.perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *own]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            self._tell(scope, status, time.perf_counter() - start, number)

    def _tell(self, scope: Scope, status: int, seconds: float, number: str) -> None:
        route = _route(scope)
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST", "DELETE", "OPTIONS") else "other"
        self._metrics.observe(method, route, status, seconds)
        extra = {
            "request_id": number,
            "method": method,
            "route": route,
            "status": status,
            "ms": round(1e3 * seconds, 2),
        }
        _log.info("request", extra=extra)


def _route(scope: Scope) -> str:
    """As it is written, not the path: paths are endless, and a stranger's to choose.

    A router's prefix, which the route itself does not know, is what the path has before it.
    """
    template = getattr(scope.get("route"), "path_format", None)
    if template is None:
        return "none"
    filled = str(template.format(**scope.get("path_params", {})))
    path = str(scope["path"])
    return f"{path.removesuffix(filled)}{template}" if path.endswith(filled) else str(template)
