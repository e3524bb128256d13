"""How fast the site's pages are when the service is full: on the server, in bytes, and in a real browser.

    python -m benchmarks.site [--traces 100000] [--database-url sqlite:///...] [--chromium /usr/bin/chromium]

The database is the one of `benchmarks.service`. Each page is asked for over HTTP of a service just started (`first`:
nothing is kept yet), then again (`again`). Chromium, with an empty cache for each page, tells its largest contentful
paint. Each is the middle of three, the first of three services. A page misses where one of them is over its target.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPConnection
from urllib.parse import quote, urlencode

from playwright.sync_api import Browser, sync_playwright
from sqlalchemy import func, select

from benchmarks.service import filling, population
from benchmarks.service.population import Population
from benchmarks.service.server import HOST, Server, empty_database, serving
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.engine import Database
from tests.leaderboard.scripted_owner import MODEL

SERVER_MS, BYTES, PAINT_MS = 300.0, 200_000, 1500.0
TIMES = 3
PAINT = """() => new Promise((done) => {
  let last = 0;
  new PerformanceObserver((list) => { last = list.getEntries().at(-1).startTime; })
    .observe({ type: "largest-contentful-paint", buffered: true });
  setTimeout(() => done(last), 300);
})"""


@dataclass(frozen=True, slots=True)
class Measured:
    """One page."""

    path: str
    first_ms: float
    again_ms: float
    bytes: int
    paint_ms: float

    @property
    def is_met(self) -> bool:
        return self.first_ms < SERVER_MS and self.bytes < BYTES and self.paint_ms < PAINT_MS


def main() -> None:
    options = _options()
    of = Population.of(options.traces, options.definitions, options.solutions)
    with ExitStack() as stack:
        url = options.database_url or stack.enter_context(empty_database("sqlite"))
        database = Database(url)
        stack.callback(database.close)
        if options.database_url is None:
            filling.fill(database, of)
            filling.rank(url, [population.make_definition(number).name for number in range(of.definitions)], 1)
        paths = list(_paths(database))
        print(_setting(database), flush=True)
        firsts = [_firsts(url, paths) for _ in range(TIMES)]
        server = stack.enter_context(serving(url))
        browser = stack.enter_context(sync_playwright()).chromium.launch(
            executable_path=options.chromium, args=["--no-sandbox"]
        )
        print("| page | first, ms | again, ms | HTML, kB | largest paint, ms | |")
        print("| --- | ---: | ---: | ---: | ---: | --- |")
        for path, first in zip(paths, zip(*firsts, strict=True), strict=True):
            one = _measure(server, browser, path, statistics.median(first))
            met = "met" if one.is_met else "**missed**"
            numbers = f"{one.first_ms:.0f} | {one.again_ms:.0f} | {one.bytes / 1e3:.0f} | {one.paint_ms:.0f}"
            print(f"| `{one.path}` | {numbers} | {met} |", flush=True)
        browser.close()
    print(f"\nTargets: first under {SERVER_MS:g} ms, HTML under {BYTES / 1e3:g} kB, paint under {PAINT_MS:g} ms.")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--traces", type=int, default=100_000)
    parser.add_argument("--definitions", type=int, default=150)
    parser.add_argument("--solutions", type=int, default=300, help="of a definition, at most")
    parser.add_argument("--database-url", help="one that is filled and ranked already")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    return parser.parse_args()


def _setting(database: Database) -> str:
    with database.read() as connection:
        counts = {
            table.__tablename__: connection.scalar(select(func.count()).select_from(table))
            for table in (t.Trace, t.Solution, t.Definition)
        }
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) + "\n"


def _paths(database: Database) -> Iterator[str]:
    """Every page, and the ones with much on them also at their full length."""
    with database.read() as connection:
        name = connection.scalars(select(t.Board.definition).order_by(t.Board.size.desc(), t.Board.definition)).first()
        one, other = connection.scalars(
            select(t.Solution.hash).where(t.Solution.definition == name, ~t.Solution.is_baseline).limit(2)
        ).all()
        submission = connection.scalars(select(t.Submission.id).where(t.Submission.solution_hash == one)).first()
    device = urlencode({"device_model": MODEL})
    yield "/"
    for tab in ("author", "agent", "person", "solution", "language"):
        yield f"/leaderboard?by={tab}"
    yield "/leaderboard?by=solution&start=50"
    yield f"/definitions/{quote(name or '')}"
    yield from ("/definitions", f"/solutions/{one}", f"/compare?a={one}&b={other}")
    yield f"/authors/{quote(population.author_of(0))}?{device}"
    yield f"/compare?a={population.author_of(0)}&b={population.author_of(1)}"
    yield "/leaderboard?serves=qwen3-8b"
    yield from ("/models", "/models/qwen3-8b", "/submissions", f"/submissions/{submission}")
    yield from ("/submit", "/viewer", "/docs", "/docs/judging", "/nothing-here")


def _firsts(url: str, paths: Sequence[str]) -> list[float]:
    """Of a service of its own, each page once."""
    with serving(url) as server:
        return [_ask(server, path)[0] for path in paths]


def _measure(server: Server, browser: Browser, path: str, first_ms: float) -> Measured:
    _, size = _ask(server, path)
    again = statistics.median(_ask(server, path)[0] for _ in range(TIMES))
    paint = statistics.median(_paint(server, browser, path) for _ in range(TIMES))
    return Measured(path, first_ms, again, size, paint)


def _paint(server: Server, browser: Browser, path: str) -> float:
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.goto(f"http://{HOST}:{server.port}{path}")
    page.wait_for_load_state("networkidle")
    paint = float(page.evaluate(PAINT))
    context.close()
    return paint


def _ask(server: Server, path: str) -> tuple[float, int]:
    """Milliseconds until the whole page is here, and its bytes."""
    connection = HTTPConnection(HOST, server.port, timeout=60)
    try:
        start = time.perf_counter()
        connection.request("GET", path, headers={"Accept": "text/html"})
        body = connection.getresponse().read()
        return 1e3 * (time.perf_counter() - start), len(body)
    finally:
        connection.close()


if __name__ == "__main__":
    main()
