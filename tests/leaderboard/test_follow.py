"""Somebody who follows a submission hears its events, and nothing else that the stream holds."""

from __future__ import annotations

import httpx

from kernelmill.leaderboard.client import Client

STREAM = (
    'id: 1\r\nevent: state\r\ndata: {"state": "queued"}\r\n\r\n'
    ": ping - 2026-01-01 00:00:00\r\n\r\n"
    'id: 2\r\nevent: state\r\ndata: {"state": "done"}\r\n\r\n'
)


def test_a_ping_after_an_event_is_no_event() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/events"):
            return httpx.Response(200, json={"state": "queued"})
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, text=STREAM)

    with Client("http://service", transport=httpx.MockTransport(answer)) as client:
        assert [told.data["state"] for told in client.follow("1")] == ["queued", "done"]
