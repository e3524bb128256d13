"""What is measured, and how it is summed up."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from random import Random
from urllib.parse import quote, urlencode

from sqlalchemy import func, select

from benchmarks.service import population
from benchmarks.service.load import Order, Result, begin, finish, send
from benchmarks.service.population import Population
from benchmarks.service.server import HOST, Server
from kernelmill.leaderboard import boards, traces
from kernelmill.leaderboard.boards import ShareCache
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.garbage import settle
from kernelmill.trace_schema import Trace
from tests.leaderboard.scripted_owner import MODEL

READS_PER_S = 200
WRITES_PER_S = 100
UPDATES = 100
READ_P99_MS, UPDATE_P99_MS = 50.0, 100.0
WARM_UP_S = 5.0
"""Of mixed requests, so that connections are open and most boards were read once."""
KILL_S = 6.0
"""How long is submitted in the round in which the service is killed half-way."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One row: what was reached, latencies in milliseconds, and what was to be reached."""

    name: str
    per_s: float | None
    p50: float
    p95: float
    p99: float
    most: float
    errors: int
    target: str
    met: bool
    late_p99: float = 0.0
    """How late the generator itself was: to be small beside the latencies."""

    @classmethod
    def of(cls, name: str, results: Sequence[Result], wanted_per_s: float, p99_ms: float | None = None) -> Figure:
        good = [each for each in results if 200 <= each.status < 300]
        times = [1e3 * each.latency_s for each in good]
        span = max(each.at + each.latency_s for each in results)
        rate = len(good) / max(span, max(each.at for each in results))
        p50, p95, p99, most = (quantile(times, share) for share in (0.5, 0.95, 0.99, 1.0))
        target = f"p99 <= {p99_ms:g} ms" if p99_ms else f"{wanted_per_s:g}/s"
        errors = len(results) - len(good)
        met = errors == 0 and (p99 <= p99_ms if p99_ms else rate >= 0.95 * wanted_per_s)
        late = quantile([1e3 * each.late_s for each in results], 0.99)
        return cls(name, rate, p50, p95, p99, most, errors, target, met, late)

    @classmethod
    def of_times(cls, name: str, seconds: Sequence[float], p99_ms: float) -> Figure:
        times = [1e3 * each for each in seconds]
        p50, p95, p99, most = (quantile(times, share) for share in (0.5, 0.95, 0.99, 1.0))
        return cls(name, None, p50, p95, p99, most, 0, f"p99 <= {p99_ms:g} ms", p99 <= p99_ms)


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("inf")


def moments(per_s: float, seconds: float, random: Random) -> list[float]:
    """As from many clients that know nothing of each other."""
    found, at = [], 0.0
    while (at := at + random.expovariate(per_s)) < seconds:
        found.append(at)
    return found


class Reads:
    """Requests for things drawn from the whole population."""

    def __init__(self, of: Population) -> None:
        self._names = [population.make_definition(number).name for number in range(of.definitions)]
        self._hashes = [
            population.make_solution(population.make_definition(number), rank).hash()
            for number in range(of.definitions)
            for rank in range(of.solutions)
        ]
        self.kinds: Mapping[str, Callable[[Random], str]] = {
            "leaderboard": self._leaderboard,
            "definition": lambda random: f"/api/v1/definitions/{quote(random.choice(self._names))}",
            "solution": lambda random: f"/api/v1/solutions/{random.choice(self._hashes)}",
        }

    def measure(self, port: int, seconds: float) -> list[Figure]:
        """Each kind alone, then all of them mixed; before that, the process warms up."""
        self._measure("warm-up", port, WARM_UP_S, list(self.kinds))
        return [
            self._measure(f"GET {name}", port, seconds, [name] if name != "mixed" else list(self.kinds))
            for name in (*self.kinds, "mixed")
        ]

    def _measure(self, name: str, port: int, seconds: float, kinds: Sequence[str]) -> Figure:
        random = Random(name)
        orders = []
        for at in moments(READS_PER_S, seconds, random):
            kind = random.choice(kinds)
            orders.append(Order(at, kind, self.kinds[kind](random)))
        return Figure.of(name, send(port, orders), READS_PER_S, READ_P99_MS)

    def _leaderboard(self, random: Random) -> str:
        return "/api/v1/leaderboard?" + urlencode({"definition": random.choice(self._names), "device_model": MODEL})


class Writes:
    """Submissions of sources that nobody has handed in yet, by several authors in turn."""

    def __init__(self, of: Population, tokens: Mapping[str, str]) -> None:
        self._names = [population.make_definition(number).name for number in range(of.definitions)]
        self._tokens = list(tokens.values())
        self._seed = 1_000_000
        self.accepted: list[str] = []

    def measure(self, server: Server, seconds: float) -> Figure:
        results = send(server.port, self._orders(seconds))
        self._keep(results)
        return Figure.of("POST submission", results, WRITES_PER_S)

    def kill(self, server: Server) -> None:
        """A round in which the service is killed while it accepts."""
        process = begin(server.port, self._orders(KILL_S))
        time.sleep(KILL_S / 2)
        server.kill()
        server.start()
        self._keep(finish(process))

    def lost(self, database: Database) -> int:
        """How many that were accepted the database does not have."""
        found = 0
        with database.read() as connection:
            for start in range(0, len(self.accepted), 500):
                part = self.accepted[start : start + 500]
                query = select(func.count()).select_from(t.Submission).where(t.Submission.id.in_(part))
                found += connection.scalar(query) or 0
        return len(self.accepted) - found

    def _orders(self, seconds: float) -> list[Order]:
        random = Random(self._seed)
        orders = []
        for at in moments(WRITES_PER_S, seconds, random):
            self._seed += 1
            body = json.dumps(population.submission_of(random.choice(self._names), self._seed))
            token = random.choice(self._tokens)
            orders.append(Order(at, "submission", "/api/v1/submissions", "POST", token, body))
        return orders

    def _keep(self, results: Sequence[Result]) -> None:
        self.accepted += [each.id for each in results if each.id is not None]


class Updates:
    """From a new verdict until the board shows it: stored, ranked and read as a dispatcher and a reader do."""

    def __init__(self, database: Database, port: int) -> None:
        self._database = database
        self._port = port
        self._seed = 0

    def measure(self, of: Population) -> list[Figure]:
        """Cold: nothing is known of the board. Warm: it was brought up to date just before."""
        settle()  # as a dispatcher does
        random = Random(1)
        chosen = random.choices(range(of.definitions), k=UPDATES)
        cold, warm = [], []
        with closing(HTTPConnection(HOST, self._port, timeout=30)) as connection:
            for number in chosen:
                name = population.make_definition(number).name
                boards.share_cache = ShareCache()
                cold.append(self._one(connection, name, random))
                warm.append(self._one(connection, name, random))
        figures = (("board update, cold", cold), ("board update, warm", warm))
        return [Figure.of_times(name, times, UPDATE_P99_MS) for name, times in figures]

    def _one(self, connection: HTTPConnection, definition: str, random: Random) -> float:
        """Seconds."""
        trace, owner = self._new(definition, random)
        _, before = _board(connection, definition)
        start = time.perf_counter()
        with self._database.write() as writing:
            assert traces.store(writing, trace, owner)
        boards.refresh(self._database, definition, MODEL)
        status, _ = _board(connection, definition, before)
        assert status == 200, "the board has not changed"
        return time.perf_counter() - start

    def _new(self, definition: str, random: Random) -> tuple[Trace, traces.Owner]:
        """Another sitting of a solution that was judged before."""
        own = t.Trace
        query = select(own.solution_hash, own.author_id, own.body).where(own.definition == definition)
        with self._database.read() as connection:
            row = random.choice(connection.execute(query.order_by(own.id.desc()).limit(1000)).all())
        self._seed += 1
        trace = Trace.model_validate_json(row.body)
        assert trace.evaluation is not None
        assert trace.evaluation.subject is not None
        subject = trace.evaluation.subject.model_copy(update={"session": f"again-{self._seed}"})
        evaluation = trace.evaluation.model_copy(update={"subject": subject, "timestamp": "2027-01-01T00:00:00+00:00"})
        owner = traces.Owner(row.solution_hash, row.author_id, is_ranked=True)
        return trace.model_copy(update={"evaluation": evaluation}), owner


def _board(connection: HTTPConnection, definition: str, known: str = "") -> tuple[int, str]:
    """Status and ETag."""
    path = "/api/v1/leaderboard?" + urlencode({"definition": definition, "device_model": MODEL})
    connection.request("GET", path, headers={"If-None-Match": known, "Accept-Encoding": "gzip"})
    reply = connection.getresponse()
    reply.read()
    return reply.status, reply.headers["ETag"]
