"""See the package."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import service
from benchmarks.service import filling, population
from benchmarks.service.measures import KILL_S, Figure, Reads, Updates, Writes
from benchmarks.service.population import Population
from benchmarks.service.server import empty_database, serving
from kernelmill.leaderboard.db.engine import Database

TRACES = {"postgresql": 1_000_000, "sqlite": 100_000}


def main() -> None:
    options = _options()
    kind = "sqlite" if (options.database_url or options.database).startswith("sqlite") else "postgresql"
    of = Population.of(options.traces or TRACES[kind], options.definitions, options.solutions)
    with ExitStack() as stack:
        url = options.database_url or stack.enter_context(empty_database(kind))
        database = Database(url)
        stack.callback(database.close)
        setting: dict[str, Any] = {
            "database": kind,
            "cpus": os.cpu_count(),
            "workers": options.workers,
            **asdict(of),
            "traces": of.traces,
        }
        print(", ".join(f"{name} {value}" for name, value in setting.items()), flush=True)
        start = time.perf_counter()
        tokens = filling.fill(database, of)
        setting["fill_s"] = round(time.perf_counter() - start, 1)
        start = time.perf_counter()
        names = [population.make_definition(number).name for number in range(of.definitions)]
        filling.rank(url, names, options.processes if kind == "postgresql" else 1)
        filling.rest(database)
        setting["rank_s"] = round(time.perf_counter() - start, 1)
        print(f"filled in {setting['fill_s']} s, all boards ranked in {setting['rank_s']} s", flush=True)
        figures, lost = _measure(stack, url, database, of, tokens, options.seconds, options.workers)
    if options.json:
        report = {**setting, **lost, "figures": [asdict(figure) for figure in figures]}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def _measure(
    stack: ExitStack,
    url: str,
    database: Database,
    of: Population,
    tokens: dict[str, str],
    seconds: float,
    workers: int,
) -> tuple[list[Figure], dict[str, int]]:
    server = stack.enter_context(serving(url, workers))
    reads, writes = Reads(of), Writes(of, tokens)
    _print_head()
    figures = _print(reads.measure(server.port, seconds))
    figures += _print([writes.measure(server, seconds)])
    writes.kill(server)
    lost = writes.lost(database)
    figures += _print(Updates(database, server.port).measure(of))
    print(f"accepted {len(writes.accepted)}, also while the service was killed within {KILL_S:g} s; lost: {lost}")
    return figures, {"accepted": len(writes.accepted), "lost": lost}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.service", description=service.__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--database", choices=list(TRACES), default="postgresql")
    parser.add_argument("--database-url", help="an existing, empty one")
    parser.add_argument("--traces", type=int, help="1,000,000, and 100,000 for SQLite")
    parser.add_argument("--definitions", type=int, default=150)
    parser.add_argument("--solutions", type=int, default=300, help="of a definition, at most")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each measurement")
    parser.add_argument("--processes", type=int, default=2, help="that rank")
    parser.add_argument("--workers", type=int, default=1, help="processes of the API")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def _print_head() -> None:
    print(f"{'':22}{'per s':>8}{'p50 ms':>9}{'p95':>9}{'p99':>9}{'max':>9}{'errors':>8}  target", flush=True)


def _print(figures: Sequence[Figure]) -> list[Figure]:
    for each in figures:
        rate = f"{each.per_s:.1f}" if each.per_s is not None else ""
        times = "".join(f"{time:9.1f}" for time in (each.p50, each.p95, each.p99, each.most))
        verdict = "met" if each.met else "NOT MET"
        print(f"{each.name:22}{rate:>8}{times}{each.errors:>8}  {each.target}: {verdict}", flush=True)
    return list(figures)


if __name__ == "__main__":
    main()
