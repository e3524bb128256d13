"""How often and how much: request rates, bodies, and how many may wait at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from fastapi import Request
from limits import RateLimitItem, parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernelmill.leaderboard.api import problems
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

    def check(self) -> None:
        """Raises TooMany where there is no room: for a stream, which can't say so once it has begun."""
        if self._count >= self._most:
            raise TooMany(f"{self._most} clients wait for events already", retry_after_s=5)

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """Raises TooMany."""
        with self._lock:
            self.check()
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
            await self._refuse(scope, receive, send)
            return
        taken, begun = 0, False

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._most:
                raise _TooLong
            return message

        async def sending(message: Message) -> None:
            """What a route says of a body that it could not read is not sent: `_refuse` says it better."""
            nonlocal begun
            if begun or taken <= self._most:
                begun = True
                await send(message)

        with suppress(_TooLong):
            await self._app(scope, counted, sending)
        if taken > self._most and not begun:
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        text = f"a request may have {self._most} bytes at most"
        reply = problems.reply(Request(scope), 413, "Too large", text, headers={"Connection": "close"})
        await reply(scope, receive, send)


class _TooLong(Exception):
    """The body went on beyond the limit."""
