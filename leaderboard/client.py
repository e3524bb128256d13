"""The service from Python and from a shell: submit, follow, look. The public API, and nothing else, is behind it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, NamedTuple, Self

import httpx
from httpx_sse import SSEError, connect_sse

from kernelmill.trace_schema import Solution
from kernelmill.trace_schema.errors import KernelMillError

TIMEOUT_S = 30.0
PATIENCE_S = 120.0
"""How long a service may be away while somebody follows a submission."""
TERMINAL = frozenset({"done", "cancelled", "failed"})


class ServiceError(KernelMillError):
    """The service refused, or is not there; the text says which, and what to do."""


class Told(NamedTuple):
    """One event of a submission: state, verdict, note or position."""

    kind: str
    data: dict[str, Any]


class Client:
    """A service at `server`; with a token where something is to be changed."""

    def __init__(self, server: str, token: str | None = None, transport: httpx.BaseTransport | None = None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._server = server.rstrip("/")
        self._http = httpx.Client(
            base_url=f"{self._server}/api/v1", headers=headers, timeout=TIMEOUT_S, transport=transport
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def submit(self, solution: Solution, *, key: str, **options: Any) -> dict[str, Any]:
        """Hand it in; the same `key` again has no second effect, so a lost answer can be asked for again."""
        body = {"solution": json.loads(solution.model_dump_json(exclude_unset=True))}
        body |= {name: value for name, value in options.items() if value is not None}
        return self._ask("POST", "/submissions", json=body, headers={"Idempotency-Key": key})

    def submission(self, number: str) -> dict[str, Any]:
        return self._ask("GET", f"/submissions/{number}")

    def follow(self, number: str) -> Iterator[Told]:
        """Its events until it has ended, resumed where a connection was lost. Raises ServiceError."""
        self.submission(number)  # a service that was never there is not waited for
        last, deadline = "", time.monotonic() + PATIENCE_S
        while True:
            try:
                for event in self._events(number, last):
                    last, deadline = event.id or last, time.monotonic() + PATIENCE_S
                    told = Told(event.event, json.loads(event.data))
                    yield told
                    if told.kind == "state" and told.data["state"] in TERMINAL:
                        return
                if self.submission(number)["state"] in TERMINAL:
                    return
            except (httpx.TransportError, ServiceError) as error:
                if time.monotonic() > deadline or (isinstance(error, ServiceError) and not _passing(error)):
                    raise _away(self._server, error) from error
            time.sleep(1.0)

    def _events(self, number: str, last: str) -> Iterator[Any]:
        headers = {"Last-Event-ID": last} if last else {}
        with connect_sse(
            self._http,
            "GET",
            f"/submissions/{number}/events",
            headers=headers,
            timeout=httpx.Timeout(TIMEOUT_S, read=60),
        ) as source:
            if source.response.status_code != 200:
                source.response.read()
                raise _refusal(source.response)
            try:
                yield from (event for event in source.iter_sse() if event.data)  # a ping has none
            except SSEError as error:
                raise ServiceError(f"{self._server} sent no events: {error}") from error

    def _ask(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        try:
            reply = self._http.request(method, path, **options)
        except httpx.TransportError as error:
            raise _away(self._server, error) from error
        if reply.is_error:
            raise _refusal(reply)
        found: dict[str, Any] = reply.json()
        return found


class Busy(ServiceError):
    """It may be asked again."""


def _passing(error: ServiceError) -> bool:
    return isinstance(error, Busy)


def _refusal(reply: httpx.Response) -> ServiceError:
    try:
        detail = reply.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = reply.text[:300]
    kind = Busy if reply.status_code in (429, 502, 503, 504) else ServiceError
    wait = reply.headers.get("retry-after")
    return kind(f"{reply.status_code}: {detail}" + (f" (try again in {wait} s)" if wait else ""))


def _away(server: str, error: Exception) -> ServiceError:
    if isinstance(error, ServiceError):
        return error
    return ServiceError(
        f"{server} is not reached ({type(error).__name__}); is it running? `kernelmill serve` starts one"
    )
