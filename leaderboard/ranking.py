"""What is read of boards: one query layer for API and site. Nothing is computed here but authors' ranks, and those are
kept as long as no board of theirs has changed.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from pydantic_core import from_json, to_json
from sqlalchemy import ColumnElement, Connection, func, literal, select

from kernelmill.evaluator.authors import load_standings, rank_authors
from kernelmill.leaderboard import boards, rows
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.errors import NotFound

By = Literal["solution", "author", "language"]
KEPT = 512
KEPT_BOARDS = 64
"""Whole ones are large, and the replies made of them are kept, too."""


KEPT_SUMMARIES = 2048
"""A page asks for one of each definition at once."""


class Kept:
    """The last results of something, each good as long as its key is the same. Safe between threads."""

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._found: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
        made = make()
        with self._lock:
            self._found[key] = made
            while len(self._found) > self._most:
                self._found.popitem(last=False)
        return made


@dataclass(frozen=True, slots=True)
class Edition:
    id: int
    name: str
    is_open: bool


@dataclass(frozen=True, slots=True)
class Head:
    """Which board, and how old: equal heads have equal boards."""

    device_model: str
    definition: str
    op_type: str
    version: int
    updated_at: str


def edition(connection: Connection, name: str | None) -> Edition:
    """The named one, else the open one. Raises NotFound."""
    query = select(t.Edition.id, t.Edition.name, t.Edition.is_open)
    wanted = t.Edition.name == name if name is not None else t.Edition.is_open
    row = connection.execute(query.where(wanted)).one_or_none()
    if row is None:
        raise NotFound(f"there is no edition {name!r}" if name is not None else "nothing is measured here yet")
    return Edition(row.id, row.name, row.is_open)


def heads(
    connection: Connection,
    edition: int,
    *,
    device_model: str | None = None,
    definition: str | None = None,
    op_type: str | None = None,
) -> list[Head]:
    """By device model and definition; boards that nothing was ranked on yet are left out."""
    own = t.Board
    query = select(own.device_model, own.definition, own.op_type, own.version, own.updated_at)
    query = query.where(own.edition_id == edition, own.version > 0)
    for column, wanted in ((own.device_model, device_model), (own.definition, definition), (own.op_type, op_type)):
        if wanted is not None:
            query = query.where(column == wanted)
    found = connection.execute(query.order_by(own.device_model, own.definition))
    return [Head(*row[:4], row.updated_at.isoformat()) for row in found]


def tag(parts: Sequence[Any]) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


class Rows(Sequence[dict[str, Any]]):
    """A board's rows, out of a line of JSON each: read when they are looked at, since a page shows few of many.

    Of `size` rows the first may be all that is here; to look at others raises IndexError.
    """

    def __init__(self, lines: Sequence[str], size: int) -> None:
        self._lines = lines
        self._size = size

    def __len__(self) -> int:
        return self._size

    def lines(self, start: int, end: int) -> list[str]:
        """These rows as they lie there, each a JSON object."""
        return [self._lines[at] for at in range(*slice(start, end).indices(self._size))]

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, at: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(self._size))]
        row: dict[str, Any] = from_json(self._lines[at])
        return row


class Ranking:
    """Boards as JSON-ready values."""

    def __init__(self) -> None:
        self._boards = Kept(KEPT_BOARDS)
        self._tops = Kept()
        self._summaries = Kept(KEPT_SUMMARIES)
        self._standings = Kept()

    def board(self, connection: Connection, edition: int, head: Head, end: int | None = None) -> dict[str, Any]:
        """`summary` and `entries`, which are `Rows`, of one board; at least the entries before `end`, or all."""
        whole = end is None or end > boards.TOP

        def make() -> dict[str, Any]:
            own = t.Board
            columns = (own.summary, own.size, own.top, own.rest if whole else literal("").label("rest"))
            row = connection.execute(select(*columns).where(*_is(head, edition))).one()
            lines = [line for part in (row.top, row.rest) if part for line in part.split("\n")]
            return {"summary": from_json(row.summary), "entries": Rows(lines, row.size)}

        found: dict[str, Any] = (self._boards if whole else self._tops).get((edition, head), make)
        return found

    def summaries(self, connection: Connection, edition: int, heads: Sequence[Head]) -> list[dict[str, Any]]:
        """Of these boards, without reading their entries; what is not known yet comes by one query."""
        read: dict[tuple[str, str], str] = {}

        def make(head: Head) -> Any:
            if not read:
                own = t.Board
                query = select(own.device_model, own.definition, own.summary).where(
                    own.edition_id == edition,
                    own.device_model.in_({each.device_model for each in heads}),
                    own.definition.in_({each.definition for each in heads}),
                )
                read.update({(row.device_model, row.definition): row.summary for row in connection.execute(query)})
            return from_json(read[head.device_model, head.definition])

        return [self._summaries.get((edition, head), lambda head=head: make(head)) for head in heads]  # type: ignore[misc]

    def standings(
        self,
        connection: Connection,
        edition: int,
        heads: Sequence[Head],
        by: Literal["author", "language"],
        op_type: str | None,
        among: frozenset[str] | None = None,
    ) -> list[dict[str, Any]]:
        """Authors or languages over the edition's whole list, or its part of one op type, on these heads' device.

        With `among` only the definitions of these names are on the list.
        """

        def make() -> list[dict[str, Any]]:
            names = [name for name in listed(connection, edition, op_type) if among is None or name in among]
            own = t.Board
            column = own.authors if by == "author" else own.languages
            query = select(own.definition, column.label("body")).where(
                own.edition_id == edition, own.device_model == heads[0].device_model
            )
            held = {row.definition: load_standings(row.body) for row in connection.execute(query)}
            return [rows.standing(row) for row in rank_authors({name: held.get(name, {}) for name in names})]

        found: list[dict[str, Any]] = self._standings.get((edition, by, op_type, among, tuple(heads)), make)
        return found


def listed(connection: Connection, edition: int, op_type: str | None = None) -> list[str]:
    """The edition's definitions. What nobody attempted is on the list, too, and counts as 1."""
    body = connection.scalar(select(t.Edition.body).where(t.Edition.id == edition))
    names = set(json.loads(body or "{}").get("definitions", {}))
    if op_type is not None:
        names &= set(connection.scalars(select(t.Definition.name).where(t.Definition.op_type == op_type)))
    return sorted(names)


def entries_with(
    connection: Connection, edition: int, heads: Sequence[Head], **wanted: str
) -> Iterator[tuple[Head, dict[str, Any]]]:
    """Entries of these boards whose field has this value; the others' lines are passed over unread."""
    ((field, value),) = wanted.items()
    mark = to_json({field: value}).decode()[1:-1]
    for head in heads:
        row = connection.execute(select(t.Board.top, t.Board.rest).where(*_is(head, edition))).one()
        for line in (line for part in row for line in part.split("\n") if mark in line):
            entry = from_json(line)
            if entry[field] == value:
                yield head, entry


def _is(head: Head, edition: int) -> list[ColumnElement[bool]]:
    own = t.Board
    return [own.edition_id == edition, own.device_model == head.device_model, own.definition == head.definition]


def history(
    connection: Connection, edition: int, definition: str, device_model: str | None, after: int, limit: int
) -> list[tuple[int, dict[str, Any]]]:
    """What stood at the head of a definition's boards, each time that it changed, oldest first."""
    own = t.History
    query = select(own.id, own.device_model, own.at, own.body).where(
        own.edition_id == edition, own.definition == definition, own.id > after
    )
    if device_model is not None:
        query = query.where(own.device_model == device_model)
    found = connection.execute(query.order_by(own.id).limit(limit))
    return [
        (row.id, {"device_model": row.device_model, "at": row.at.isoformat(), **json.loads(row.body)}) for row in found
    ]


def reports(connection: Connection, definition: str) -> dict[str, dict[str, int]]:
    """By the hash of a definition's solution: how often serving hosts told that it was withdrawn, or regressed."""
    own = t.Report
    query = select(own.solution_hash, own.kind, func.count()).join(t.Solution, t.Solution.hash == own.solution_hash)
    query = query.where(t.Solution.definition == definition)
    found: dict[str, dict[str, int]] = {}
    for key, kind, count in connection.execute(query.group_by(own.solution_hash, own.kind)):
        found.setdefault(key, {})[kind] = count
    return found
