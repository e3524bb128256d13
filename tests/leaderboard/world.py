"""A small service: one definition, four public workloads and a hidden one, a baseline, and people with tokens."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx2 import Response

from kernelmill.dataset import Dataset
from kernelmill.evaluator.executors.base import Seen
from kernelmill.leaderboard import boards, catalog, leases, tokens, traces
from kernelmill.leaderboard.api.app import create_app
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.leases import Lease
from kernelmill.leaderboard.settings import Settings
from kernelmill.leaderboard.spool import read_order
from kernelmill.trace_schema import Trace
from tests.builders import definition, raw_solution, solution, workload
from tests.leaderboard.scripted_owner import MODEL, trace_of

CPU = Seen("cpu", MODEL)
DEFINITION = "rmsnorm_h8"
UUIDS = [f"{number}1111111-1111-4111-8111-111111111111" for number in range(1, 6)]
HIDDEN = UUIDS[-1]


def small_dataset(folder: Path, *, baseline: str = "") -> Path:
    """Four public workloads of 1 to 4 rows, a hidden one of 64, and a baseline of this source."""
    (folder / "definitions").mkdir(parents=True)
    dataset = Dataset.open(folder)
    dataset.add_definition(definition())
    dataset.add_solution(
        solution(name="rmsnorm_baseline", author="baseline", source=baseline or scripted("PASSED 1.0"))
    )
    for rows, number in enumerate(UUIDS, 1):
        over: dict[str, Any] = {"split": "hidden", "axes": {"batch_size": 64}} if number == HIDDEN else {}
        made = workload(uuid=number, **{"axes": {"batch_size": rows}, "weight": float(rows), **over})
        dataset.append(Trace(definition=DEFINITION, workload=made, solution=None, evaluation=None))
    return folder


def scripted(verdict: str, salt: str = "", *more: str) -> str:
    """A source that a scripted owner gives this verdict; another salt makes it another source."""
    lines = [f"# verdict: {verdict}", *more, f"# {salt}", "def run(hidden_states, weight, output): ..."]
    return "\n".join(lines) + "\n"


class World:
    """What tests do with a service: as its people, and as its dispatcher."""

    def __init__(self, database: Database, dataset: Path, folder: Path, **settings: Any) -> None:
        self.database = database
        self.folder = folder
        self.dataset = Dataset.open(dataset)
        self.settings = Settings(
            state=folder / "state", read_rate="100000/second", write_rate="100000/second", **settings
        )
        with database.write() as connection:
            catalog.sync(connection, self.dataset, by="test")
        self.tokens = {
            "alice": self.token("alice", "submit,read"),
            "bob": self.token("bob", "submit,read"),
            "reader": self.token("reader", "read"),
            "root": self.token("root", "admin"),
        }
        self.client = TestClient(
            create_app(self.settings, database), base_url="http://127.0.0.1", raise_server_exceptions=False
        )

    def close(self) -> None:
        self.client.close()

    def fresh_app(self) -> FastAPI:
        """Another application over the same database."""
        return create_app(self.settings, self.database)

    def token(self, name: str, scopes: str, days: float | None = None) -> str:
        with self.database.write() as connection:
            author = tokens.ensure_author(connection, name)
            return tokens.create(connection, author, tokens.parse_scopes(scopes), days, by="test")

    def headers(self, who: str | None) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[who]}"} if who else {}

    def get(self, path: str, who: str | None = None, **options: Any) -> Response:
        return self.client.get(path, headers={**self.headers(who), **options.pop("headers", {})}, **options)

    def post(self, path: str, body: Any, who: str | None = "alice", **options: Any) -> Response:
        return self.client.post(path, json=body, headers={**self.headers(who), **options.pop("headers", {})}, **options)

    def submit(self, source: str, who: str = "alice", *, name: str | None = None, **over: Any) -> dict[str, Any]:
        """Of a source; the accepted submission."""
        reply = self.post("/api/v1/submissions", submission(source, name=name, **over), who)
        assert reply.status_code == 202, reply.text
        found: dict[str, Any] = reply.json()
        return found

    def view(self, number: str, who: str | None = "root") -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/api/v1/submissions/{number}", who).json()
        return found

    def take(self, holder: str = "judge", lease_s: float = 60.0) -> Lease | None:
        """The next submission, as a dispatcher for the test's device."""
        with self.database.write() as connection:
            return leases.take(connection, CPU, holder, lease_s=lease_s, attempts=3)

    def refresh(self) -> None:
        """Bring every board up to date, as an idle dispatcher does."""
        while boards.refresh_next(self.database):
            pass

    def verdicts(self, lease: Lease) -> list[Trace]:
        """What the scripted owner says of it."""
        with self.database.read() as connection:
            order = read_order(connection, lease)
        baseline = order.baselines[0] if order.baselines else order.solution
        return [
            trace_of(order.definition, order.solution, each, baseline)
            for each in order.workloads
            if each.uuid not in lease.done
        ]

    def judge(self, lease: Lease | None = None) -> Lease:
        """A whole lease, verdict by verdict, to its end."""
        lease = lease or self.take()
        assert lease is not None, "nothing waits"
        found = self.verdicts(lease)
        with self.database.write() as connection:
            for trace in found:
                traces.record(connection, lease, trace)
            passed = all(trace.evaluation and trace.evaluation.status == "PASSED" for trace in found)
            leases.finish(connection, lease, "done", outcome="passed" if passed else "not_passed")
        return lease


def submission(source: str, *, name: str | None = None, **over: Any) -> dict[str, Any]:
    """A request body; the name is one that nobody else has."""
    author = over.pop("author", "whoever")
    raw = raw_solution(name=name or f"rmsnorm_{uuid.uuid4().hex[:12]}", source=source, author=author)
    return {"solution": raw, **over}


def told(text: str) -> list[tuple[str, dict[str, Any], str | None]]:
    """(event, data, id) of an event stream's text."""
    found = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if "data" in fields:
            found.append((fields.get("event", "message"), json.loads(fields["data"]), fields.get("id")))
    return found
