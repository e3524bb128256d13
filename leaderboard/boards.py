"""Boards: made again when a trace comes in, out of shares that are kept, by the same pure score that files get.

A trace marks its solution's shares and their boards stale in its own transaction. `refresh` then reads the traces of
what is stale, and ranks. `rescore` does it from nothing, and must find the same.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json
from sqlalchemy import ColumnElement, Connection, insert, or_, select, update

from kernelmill.evaluator.admission import Admission, Listing
from kernelmill.evaluator.authors import dump_standings, standings
from kernelmill.evaluator.findings import HIDDEN, Findings, Share, share_of
from kernelmill.evaluator.reference import reference_solution
from kernelmill.evaluator.run import is_for
from kernelmill.evaluator.scoring import Score, score_findings
from kernelmill.leaderboard import catalog, rows, traces
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.db.types import AnyRow, now
from kernelmill.trace_schema import Definition, Solution, Trace, Workload
from kernelmill.trace_schema.errors import InternalError

TOP = 50
"""Entries of a board that lie apart from the others."""
KEPT_BOARDS = 8
"""A submission's verdicts come one after the other. More would make each collection of garbage longer."""
Listings = Mapping[str, Listing]


@dataclass(frozen=True, slots=True)
class Place:
    """Which board."""

    edition: int
    definition: str
    device_model: str


@dataclass(frozen=True, slots=True)
class Ground:
    """What a board rests on besides traces."""

    definition: Definition
    workloads: tuple[Workload, ...]
    baselines: dict[str, Listing]
    """By name: what this kind of device is measured against; the reference itself where there is none."""


@dataclass(slots=True)
class Rescored:
    """How many boards there are, and which of them were not what their traces say."""

    boards: int = 0
    different: list[str] = field(default_factory=list)


class ShareCache:
    """Shares of the boards that were touched last, parsed: good as long as the stored text is the same."""

    def __init__(self) -> None:
        self._boards: OrderedDict[Place, dict[str, tuple[str, Share]]] = OrderedDict()
        self._lock = threading.Lock()

    def parsed(self, place: Place, bodies: Mapping[str, str]) -> dict[str, Share]:
        with self._lock:
            known = self._boards.pop(place, {})
        fresh = {
            key: known[key] if key in known and known[key][0] == body else (body, Share.from_json(body))
            for key, body in bodies.items()
        }
        with self._lock:
            self._boards[place] = fresh
            while len(self._boards) > KEPT_BOARDS:
                self._boards.popitem(last=False)
        return {key: share for key, (_, share) in fresh.items()}


share_cache = ShareCache()


def refresh(database: Database, definition: str, device_model: str) -> bool:
    """Bring one board up to date; whether there was anything to do."""
    with database.write() as connection:
        edition = catalog.current_edition(connection)
        if edition is None:
            return False
        return _refresh(connection, Place(edition, definition, device_model))


def refresh_next(database: Database) -> bool:
    """Some board that is stale; False where none is."""
    with database.read() as connection:
        query = select(t.Board.definition, t.Board.device_model).where(
            t.Board.edition_id == catalog.current_edition(connection), t.Board.is_stale
        )
        row = connection.execute(query.limit(1)).one_or_none()
    return refresh(database, row.definition, row.device_model) if row else False


def rescore(database: Database) -> Rescored:
    """Every board of the open edition from its traces alone, one transaction each."""
    while refresh_next(database):
        pass
    done = Rescored()
    with database.read() as connection:
        edition = catalog.current_edition(connection)
        query = select(t.Board.definition, t.Board.device_model).where(t.Board.edition_id == edition)
        places = [Place(edition or 0, row.definition, row.device_model) for row in connection.execute(query)]
    for place in places:
        with database.write() as connection:
            before = _content(connection, place)
            connection.execute(update(t.Share).where(*_at(t.Share, place)).values(is_stale=True))
            connection.execute(update(t.Board).where(*_at(t.Board, place)).values(is_stale=True))
            _refresh(connection, place)
            done.boards += 1
            if _content(connection, place) != before:
                done.different.append(f"{place.definition} on {place.device_model}")
    return done


def _refresh(connection: Connection, place: Place) -> bool:
    own = t.Board
    board = connection.execute(
        select(own.is_stale, own.version, own.summary).where(*_at(own, place)).with_for_update()
    ).one_or_none()
    if board is None or not board.is_stale:
        return False
    ground = _ground(connection, place)
    if ground is None:
        connection.execute(update(own).where(*_at(own, place)).values(is_stale=False))
        return True
    listings = _listings(connection, place)
    _remake(connection, place, ground, listings)
    score = _score(place, ground, _shares(connection, place, listings), listings)
    _write(connection, place, board, score, {each.uuid for each in ground.workloads if each.split == HIDDEN})
    return True


def _score(place: Place, ground: Ground, shares: Mapping[str, Share], listings: Listings) -> Score:
    findings = Findings.of(ground.workloads, shares.values())
    return score_findings(
        findings,
        definition=place.definition,
        op_type=ground.definition.op_type,
        device_model=place.device_model,
        listings=listings,
    )


def _write(connection: Connection, place: Place, board: AnyRow, score: Score, hidden: Collection[str]) -> None:
    summary = json.dumps(rows.summary(score), separators=(",", ":"))
    lines = [to_json(row).decode() for row in rows.entries(score, hidden)]
    connection.execute(
        update(t.Board)
        .where(*_at(t.Board, place))
        .values(
            op_type=score.op_type,
            version=board.version + 1,
            is_stale=False,
            summary=summary,
            size=len(lines),
            top="\n".join(lines[:TOP]),
            rest="\n".join(lines[TOP:]),
            authors=dump_standings(standings(score)),
            languages=dump_standings(standings(score, "language")),
            updated_at=now(),
        )
    )
    head = _head(summary)
    if head != _head(board.summary):
        connection.execute(insert(t.History).values(**_key(place), body=json.dumps(head)))


def _head(summary: str) -> dict[str, Any]:
    """What a board's history keeps."""
    told = json.loads(summary)
    if not told:
        return {}
    leader = told["leader"]
    return {
        "best_mix": told["best_mix"]["speedup"],
        "leader": leader and {name: leader[name] for name in ("solution", "author", "speedup")},
        "solutions": told["solutions"],
    }


def _ground(connection: Connection, place: Place) -> Ground | None:
    body = connection.scalar(
        select(t.Definition.body).where(t.Definition.name == place.definition, t.Definition.is_current)
    )
    if body is None:
        return None
    definition = Definition.model_validate_json(body)
    query = (
        select(t.Workload.body)
        .where(t.Workload.definition == place.definition, t.Workload.is_current)
        .order_by(t.Workload.position, t.Workload.id)
    )
    workloads = tuple(Workload.model_validate_json(text) for text in connection.scalars(query))
    return Ground(definition, workloads, _baselines(connection, place))


def _baselines(connection: Connection, place: Place) -> dict[str, Listing]:
    kind = connection.scalar(select(t.Device.kind).where(t.Device.model == place.device_model)) or "cpu"
    own = t.Solution
    query = (
        select(own.hash, own.name, own.language, own.body, t.Author.name.label("author"))
        .join(t.Author, t.Author.id == own.author_id)
        .where(own.definition == place.definition, own.is_baseline, own.hidden_at.is_(None))
    )
    return {
        row.name: Listing(row.hash, row.author, row.language)
        for row in connection.execute(query)
        if is_for(Solution.model_validate_json(row.body), kind)
    }


def _listings(connection: Connection, place: Place) -> Listings:
    """Who may be on the board, by name: who has a share, and baselines, which may be judged only beside others."""
    own = t.Solution
    shared = select(t.Share.solution_hash).where(*_at(t.Share, place))
    query = (
        select(own.hash, own.name, own.language, t.Author.name.label("author"))
        .join(t.Author, t.Author.id == own.author_id)
        .where(own.definition == place.definition, own.hash.in_(shared) | own.is_baseline)
        .where(own.hidden_at.is_(None), t.Author.banned_at.is_(None))
    )
    return {row.name: Listing(row.hash, row.author, row.language) for row in connection.execute(query)}


def _shares(connection: Connection, place: Place, listings: Listings) -> dict[str, Share]:
    query = select(t.Share.solution_hash, t.Share.body).where(*_at(t.Share, place), t.Share.body != "")
    listed = {listing.hash for listing in listings.values()}
    bodies = {row.solution_hash: row.body for row in connection.execute(query) if row.solution_hash in listed}
    try:
        return share_cache.parsed(place, bodies)
    except InternalError:  # written by another version: make them anew
        connection.execute(update(t.Share).where(*_at(t.Share, place)).values(is_stale=True))
        ground = _ground(connection, place)
        if ground is None:
            return {}
        _remake(connection, place, ground, listings)
        return share_cache.parsed(place, {row.solution_hash: row.body for row in connection.execute(query)})


def _remake(connection: Connection, place: Place, ground: Ground, listings: Listings) -> None:
    """The shares that are stale, from their traces."""
    query = select(t.Share.solution_hash, t.Solution.name).join(t.Solution, t.Solution.hash == t.Share.solution_hash)
    stale = connection.execute(query.where(*_at(t.Share, place), t.Share.is_stale)).all()
    hashes = {workload.uuid: workload.hash() for workload in ground.workloads}
    baselines = {listing.hash for listing in ground.baselines.values()}
    for row in stale:
        if row.name not in listings:
            continue
        admission = Admission(
            device_model=place.device_model,
            definition_hash=ground.definition.hash(),
            workload_hashes=hashes,
            solution_hashes={row.name: row.solution_hash},
            baseline_hashes=frozenset(baselines or {reference_solution(ground.definition).hash()}),
        )
        share = share_of(row.name, _traces(connection, row.solution_hash), admission)
        connection.execute(
            update(t.Share)
            .where(*_at(t.Share, place), t.Share.solution_hash == row.solution_hash)
            .values(body=share.to_json(), is_stale=False)
        )


def _traces(connection: Connection, solution_hash: str) -> Iterable[Trace]:
    query = select(t.Trace.body).where(
        t.Trace.solution_hash == solution_hash, or_(t.Trace.is_ranked, t.Trace.verdict.in_(traces.ALWAYS))
    )
    return (Trace.model_validate_json(body) for body in connection.scalars(query.order_by(t.Trace.id)))


def _key(place: Place) -> dict[str, Any]:
    return {"edition_id": place.edition, "definition": place.definition, "device_model": place.device_model}


def _at(table: type[t.Share] | type[t.Board], place: Place) -> list[ColumnElement[bool]]:
    return [getattr(table, name) == value for name, value in _key(place).items()]


def _content(connection: Connection, place: Place) -> Sequence[Any]:
    own = t.Board
    query = select(own.summary, own.size, own.top, own.rest, own.authors, own.languages).where(*_at(own, place))
    return tuple(connection.execute(query).one())
