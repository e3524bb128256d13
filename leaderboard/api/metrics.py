"""Prometheus metrics: of this process's requests, and of the queue as the database has it when asked."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from sqlalchemy import func, select

from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.db.types import now

BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5)


class Metrics:
    """One registry for each application, so that two in one process do not count together."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self._registry, "namespace": "kernelmill"}
        self._requests = Counter("requests_total", "Requests", ["method", "route", "status"], **own)
        self._seconds = Histogram("request_seconds", "Time to answer", ["method", "route"], buckets=BUCKETS, **own)
        self._submissions = Gauge("submissions", "Submissions by state", ["state"], **own)
        self._queue = Gauge("queue_oldest_seconds", "Age of the oldest waiting submission", **own)
        self._traces = Gauge("traces", "Stored verdicts, by the counter of their ids", **own)
        self._stale = Gauge("boards_stale", "Boards that wait to be ranked anew", **own)
        self._devices = Gauge("device_seen_seconds", "Since a dispatcher offered the device", ["device_model"], **own)
        self._waiters = Gauge("waiters", "Open long polls and event streams", **own)

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def render(self, database: Database, waiters: int) -> bytes:
        self._waiters.set(waiters)
        at = now()
        own = t.Submission
        with database.read() as connection:
            found = connection.execute(select(own.state, func.count().label("number")).group_by(own.state))
            counts = {row.state: row.number for row in found}
            oldest = connection.scalar(
                select(own.created_at).where(own.state == "queued").order_by(own.created_at).limit(1)
            )
            self._traces.set(connection.scalar(select(func.max(t.Trace.id))) or 0)
            self._stale.set(connection.scalar(select(func.count()).select_from(t.Board).where(t.Board.is_stale)) or 0)
            for row in connection.execute(select(t.Device.model, t.Device.seen_at)):
                if row.seen_at is not None:
                    self._devices.labels(row.model).set((at - row.seen_at).total_seconds())
        for state in ("queued", "building", "judging", "done", "cancelled", "failed"):
            self._submissions.labels(state).set(counts.get(state, 0))
        self._queue.set((at - oldest).total_seconds() if oldest else 0)
        return generate_latest(self._registry)
