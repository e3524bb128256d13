"""How often and how much: request rates, bodies, and how many may wait at once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import Request
from limits import RateLimitItem, parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernelmill.leaderboard.errors import TooMany
from kernelmill.leaderboard.tokens import Principal


class Limiter:
    """Counts in this process's memory: a service of several processes admits as many times more."""

    def __init__(self, read_rate: str, write_rate: str) -> None:
        self._strategy = MovingWindowRateLimiter(MemoryStorage())
        self._read, self._write = parse(read_rate), parse(write_rate)

    def check(self, request: Request, who: Principal) -> None:
        """Raises TooMany. Administrators are not counted."""
        if who.is_admin:
            return
        is_read = request.method in ("GET", "HEAD", "OPTIONS")
        item: RateLimitItem = self._read if is_read else self._write
        address = request.client.host if request.client else "?"
        key = f"{'read' if is_read else 'write'}:{who.id if who.id is not None else address}"
        if not self._strategy.hit(item, key):
            wait = self._strategy.get_window_stats(item, key).reset_time - time.time()
            raise TooMany(f"more than {item} requests", retry_after_s=max(1.0, wait))


class Waiters:
    """Long polls and event streams that are open."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        return self._count

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """Raises TooMany."""
        with self._lock:
            if self._count >= self._most:
                raise TooMany(f"{self._most} clients wait for events already", retry_after_s=5)
            self._count += 1
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1


class BodyLimit:
    """Refuses a body that is larger than allowed, before it is read to its end."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > self._most:
            await self._refuse(send)
            return
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._most:
                raise _TooLong
            return message

        try:
            await self._app(scope, counted, send)
        except _TooLong:
            await self._refuse(send)

    async def _refuse(self, send: Send) -> None:
        body = {
            "type": "about:blank",
            "title": "Too large",
            "status": 413,
            "detail": f"a request may have {self._most} bytes at most",
        }
        headers = [(b"content-type", b"application/problem+json"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})


class _TooLong(Exception):
    """The body went on beyond the limit."""
