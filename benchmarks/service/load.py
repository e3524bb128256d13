"""Sends requests at the moments when they are due, over connections that stay open; its own process.

    python -m benchmarks.service.load PORT < orders > results

An order is a line of JSON: `at` (seconds from the start), `kind`, `method`, `path`, `token`, `body`. A result is one:
`kind`, `status` (0 where there was no answer), `latency_s` from the moment it was due, `late_s` until it was sent, and
`id` of what was accepted.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

HOST = "127.0.0.1"
CONNECTIONS = 64
PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Order:
    """One request."""

    at: float
    kind: str
    path: str
    method: str = "GET"
    token: str | None = None
    body: str = ""

    def packed(self) -> bytes:
        head = [f"{self.method} {self.path} HTTP/1.1", f"Host: {HOST}"]
        if self.method == "GET":
            head.append("Accept-Encoding: gzip")
        if self.token:
            head.append(f"Authorization: Bearer {self.token}")
        if self.body:
            head += ["Content-Type: application/json", f"Content-Length: {len(self.body.encode())}"]
        return "\r\n".join([*head, "", self.body]).encode()


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it. `at` is when it was due."""

    at: float
    kind: str
    status: int
    latency_s: float
    late_s: float
    id: str | None = None


def send(port: int, orders: Sequence[Order]) -> list[Result]:
    """From a second process, to its end."""
    process = begin(port, orders)
    return finish(process)


def begin(port: int, orders: Sequence[Order]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.service.load", str(port)]
    root = Path(__file__).parents[2]
    process = subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    process.stdin.writelines(json.dumps(asdict(order)) + "\n" for order in orders)
    process.stdin.close()
    return process


def finish(process: subprocess.Popen[str]) -> list[Result]:
    assert process.stdout is not None
    results = [Result(**json.loads(line)) for line in process.stdout]
    assert process.wait() == 0, "the load generator failed"
    return results


@dataclass(slots=True)
class Generator:
    """Takes a connection that is free, else opens one, else waits for one."""

    port: int
    results: list[Result] = field(default_factory=list)
    _free: deque[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=deque)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CONNECTIONS))

    async def run(self, orders: Sequence[tuple[Order, bytes]]) -> None:
        start = time.perf_counter() + 0.1
        async with asyncio.TaskGroup() as group:
            for order, data in orders:
                pause = start + order.at - time.perf_counter()
                if pause > 0:
                    await asyncio.sleep(pause)
                group.create_task(self._one(order, data, start + order.at))

    async def _one(self, order: Order, data: bytes, due: float) -> None:
        sent, status, body = time.perf_counter(), 0, b""
        try:
            async with self._slots, asyncio.timeout(PATIENCE_S):
                status, body = await self._exchange(data)
        except (OSError, EOFError, TimeoutError):
            pass
        latency = time.perf_counter() - due
        number = json.loads(body)["id"] if status == 202 else None
        self.results.append(Result(order.at, order.kind, status, latency, sent - due, number))

    async def _exchange(self, data: bytes) -> tuple[int, bytes]:
        reader, writer = await self._connection()
        try:
            writer.write(data)
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            body = await reader.readexactly(int(length))
        except BaseException:
            writer.close()
            raise
        self._free.append((reader, writer))
        return int(head[9:12]), body

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The one that was used last, unless the service closed it for idleness."""
        while self._free:
            reader, writer = self._free.pop()
            if not reader.at_eof():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(HOST, self.port)


def main() -> None:
    orders = [Order(**json.loads(line)) for line in sys.stdin]
    packed = [(order, order.packed()) for order in orders]
    gc.disable()  # a collection would be counted as the service's
    generator = Generator(int(sys.argv[1]))
    asyncio.run(generator.run(packed))
    for result in generator.results:
        print(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
