"""Fills an empty database with a population, and ranks it."""

from __future__ import annotations

import hashlib
import multiprocessing
from array import array
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from itertools import islice
from typing import Any

from sqlalchemy import Connection, insert

from benchmarks.service import population
from benchmarks.service.population import AUTHORS, WORKLOADS, Judge, Population
from kernelmill.leaderboard import boards, catalog, tokens
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.db.migrate import migrate
from kernelmill.leaderboard.likeness import fingerprint
from kernelmill.trace_schema import Definition, Solution
from tests.leaderboard.scripted_owner import MODEL

BATCH = 2000
Row = dict[str, Any]


def fill(database: Database, of: Population) -> dict[str, str]:
    """The catalogue through the service's own code, the rest in bulk. A token of each author."""
    migrate(database)
    with database.write() as connection:
        definitions = [_take(connection, number) for number in range(of.definitions)]
        edition = catalog.open_edition(connection)
        assert edition is not None, "the database is not empty"
        people = {name: _person(connection, name) for name in map(population.author_of, range(AUTHORS))}
        connection.execute(insert(t.Device).values(model=MODEL, kind="cpu", arch="x86_64"))
    authors = {name: number for name, (number, _) in people.items()}
    for number, definition in enumerate(definitions):
        with database.write() as connection:
            _fill_definition(connection, definition, number, of, authors)
    rest(database)
    return {name: token for name, (_, token) in people.items()}


def rest(database: Database) -> None:
    """What a database does by itself once it was filled; else it would do it while something is measured."""
    if not database.is_sqlite:
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("vacuum analyze")
            connection.exec_driver_sql("checkpoint")


def rank(url: str, definitions: Sequence[str], processes: int) -> None:
    """Every board, from its traces."""
    parts = [list(definitions[number::processes]) for number in range(processes)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        assert all(pool.map(_rank, [url] * processes, parts))


def _rank(url: str, definitions: Sequence[str]) -> bool:
    database = Database(url)
    done = [boards.refresh(database, name, MODEL) for name in definitions]
    database.close()
    return all(done)


def _take(connection: Connection, number: int) -> Definition:
    definition = population.make_definition(number)
    catalog.take_definition(connection, definition)
    catalog.take_workloads(connection, definition.name, population.make_workloads(number))
    catalog.take_solution(connection, population.make_baseline(definition))
    return definition


def _person(connection: Connection, name: str) -> tuple[int, str]:
    kind: tokens.Kind = "agent" if name.startswith("agent") else "person"
    model = {"model": "model-1", "harness": "loop"} if kind == "agent" else {}
    number = tokens.ensure_author(connection, name, kind, **model)
    return number, tokens.create(connection, number, [tokens.Scope.SUBMIT, tokens.Scope.READ], None, by="benchmark")


def _fill_definition(
    connection: Connection, of: Definition, number: int, population_: Population, authors: dict[str, int]
) -> None:
    solutions = [population.make_solution(of, rank) for rank in range(population_.solutions)]
    baseline = population.make_baseline(of)
    judge = Judge(of, population.make_workloads(number), baseline)
    edition = catalog.current_edition(connection)
    key = {"edition_id": edition, "definition": of.name, "device_model": MODEL, "is_stale": True}
    _bulk(connection, t.Solution, (_solution(each, authors) for each in solutions))
    sittings = [(each, rank, authors[each.author]) for rank, each in enumerate(solutions)]
    _bulk(connection, t.Submission, (_submission(each, rank, author, of, edition) for each, rank, author in sittings))
    _bulk(connection, t.Session, (_session(each, rank) for each, rank, _ in sittings))
    _bulk(connection, t.Trace, (row for each in sittings for row in _traces(judge, *each)))
    _bulk(connection, t.Share, ({**key, "solution_hash": each.hash(), "body": ""} for each in solutions))
    connection.execute(insert(t.Board).values({**key, "op_type": of.op_type}))


def _solution(of: Solution, authors: dict[str, int]) -> Row:
    return {
        "hash": of.hash(),
        "name": of.name,
        "definition": of.definition,
        "author_id": authors[of.author],
        "language": str(of.spec.language),
        "is_baseline": False,
        "fingerprint": _fingerprint(of),
        "body": of.model_dump_json(exclude_unset=True),
        "is_public": True,
        "created_at": population.START,
    }


def _submission(of: Solution, rank: int, author: int, definition: Definition, edition: int | None) -> Row:
    at = population.moment_of(rank)
    return {
        "id": population.session_of(of),
        "author_id": author,
        "solution_hash": of.hash(),
        "solution_name": of.name,
        "definition": of.definition,
        "definition_hash": definition.hash(),
        "edition_id": edition,
        "device_model": MODEL,
        "is_ranked": True,
        "priority": 1,
        "state": "done",
        "outcome": "passed",
        "expected": WORKLOADS,
        "attempts": 1,
        "fence": 1,
        "cancel_requested": False,
        "created_at": at,
        "started_at": at,
        "ended_at": at + timedelta(minutes=1),
    }


def _session(of: Solution, rank: int) -> Row:
    return {
        "id": population.session_of(of),
        "device_model": MODEL,
        "judge_version": "1.0",
        "sandbox": "bwrap",
        "submission_id": population.session_of(of),
        "started_at": population.moment_of(rank),
    }


def _traces(judge: Judge, of: Solution, rank: int, author: int) -> Iterator[Row]:
    shared = {
        "submission_id": population.session_of(of),
        "solution_hash": of.hash(),
        "author_id": author,
        "definition": of.definition,
        "device_model": MODEL,
        "session": population.session_of(of),
        "is_ranked": True,
        "created_at": population.moment_of(rank),
    }
    for workload, verdict, body in judge.traces(of, rank):
        yield {
            **shared,
            "digest": hashlib.sha256(body.encode()).hexdigest(),
            "workload_uuid": workload.uuid,
            "status": verdict,
            "verdict": verdict,
            "is_hidden": workload.split == catalog.HIDDEN,
            "body": body,
        }


_known: dict[str, bytes] = {}


def _fingerprint(of: Solution) -> bytes:
    """The same rank has the same text for each definition but for a comment, so once is enough."""
    text = of.sources[0].content.partition("\n")[2]
    if text not in _known:
        _known[text] = array("q", fingerprint(of)).tobytes()
    return _known[text]


def _bulk(connection: Connection, table: type[t.Base], rows: Iterable[Row]) -> None:
    """All rows have the same columns."""
    found = iter(rows)
    if connection.dialect.name == "postgresql":
        first = next(found)
        cursor = connection.connection.cursor()
        with cursor.copy(f"copy {table.__tablename__} ({', '.join(first)}) from stdin") as copy:
            copy.write_row(list(first.values()))
            for row in found:
                copy.write_row(list(row.values()))
        return
    while batch := list(islice(found, BATCH)):
        connection.execute(insert(table), batch)
