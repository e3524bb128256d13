"""Near clones: which stored source a new one resembles, by the fingerprints of `likeness`.

Fingerprints of a definition's sources are kept in this process, since they never change; which sources may be named is
asked each time.
"""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.likeness import LEAST, NEAR

Numbers = NDArray[np.int64]
KEPT_SHELVES = 256
BATCH = 1000
"""SQLite takes a limited number of values in a statement."""


class Near(NamedTuple):
    """The most similar public source of the same definition, and the share of the new one that is in it."""

    name: str
    share: float


@dataclass(frozen=True, slots=True)
class Shelf:
    """The fingerprints of some sources, merged: sorted `values`, the number of its source beside each in `owners`.

    `keys` has the sources' numbers by hash, `sizes` the lengths of their fingerprints by number.
    """

    keys: Mapping[str, int] = field(default_factory=dict)
    sizes: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    values: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    owners: Numbers = field(default_factory=lambda: np.empty(0, np.int64))

    def with_more(self, prints: Mapping[str, bytes]) -> Self:
        parts = [np.frombuffer(data, np.int64) for data in prints.values()]
        numbers = range(len(self.keys), len(self.keys) + len(parts))
        values, owners = np.concatenate(parts), np.repeat(numbers, [len(part) for part in parts])
        order = np.argsort(values)
        places = np.searchsorted(self.values, values[order])
        return type(self)(
            {**self.keys, **dict(zip(prints, numbers, strict=True))},
            np.append(self.sizes, [len(part) for part in parts]),
            np.insert(self.values, places, values[order]),
            np.insert(self.owners, places, owners[order]),
        )

    def likeness(self, own: Sequence[int]) -> NDArray[np.float64]:
        """`likeness.likeness` of a new source with each of these, by their numbers."""
        new = np.array(own, np.int64)
        begins, ends = np.searchsorted(self.values, new), np.searchsorted(self.values, new, "right")
        found = [self.owners[begin:end] for begin, end in zip(begins, ends, strict=True) if begin < end]
        shared = np.bincount(np.concatenate(found) if found else [], minlength=len(self.sizes))
        smaller = np.minimum(self.sizes, len(new))
        return np.where(smaller >= LEAST, shared / np.maximum(smaller, 1), 0.0)


class Shelves:
    """Of the definitions that were asked for last. Safe between threads: a shelf is replaced, not changed."""

    def __init__(self) -> None:
        self._shelves: OrderedDict[str, Shelf] = OrderedDict()
        self._lock = threading.Lock()

    def filled(self, connection: Connection, definition: str, keys: Iterable[str]) -> Shelf:
        """With these sources at least, and maybe with some that are no longer public."""
        with self._lock:
            shelf = self._shelves.get(definition) or Shelf()
        query = select(t.Solution.hash, t.Solution.fingerprint).where(
            t.Solution.definition == definition, t.Solution.fingerprint.is_not(None)
        )
        if not shelf.keys and (rows := connection.execute(query).all()):
            shelf = shelf.with_more({row.hash: row.fingerprint for row in rows})
        missing = (key for key in keys if key not in shelf.keys)
        while part := list(islice(missing, BATCH)):
            rows = connection.execute(query.where(t.Solution.hash.in_(part))).all()
            shelf = shelf.with_more({row.hash: row.fingerprint for row in rows})
        with self._lock:
            self._shelves[definition] = shelf
            self._shelves.move_to_end(definition)
            while len(self._shelves) > KEPT_SHELVES:
                self._shelves.popitem(last=False)
        return shelf


_shelves = Shelves()


def packed(fingerprint: Sequence[int]) -> bytes | None:
    """As the database keeps it: 64-bit integers, in this machine's order of bytes (little-endian everywhere today).

    None for one that resembles nothing.
    """
    return array("q", fingerprint).tobytes() if len(fingerprint) >= LEAST else None


def nearest(connection: Connection, definition: str, own: Sequence[int]) -> Near | None:
    """Of a new source with this fingerprint. Only public ones: a private one must not be told of by its likeness."""
    if len(own) < LEAST:
        return None
    query = select(t.Solution.hash).where(
        t.Solution.definition == definition,
        t.Solution.is_public,
        t.Solution.hidden_at.is_(None),
        t.Solution.fingerprint.is_not(None),
    )
    keys = connection.scalars(query.order_by(t.Solution.created_at)).all()
    if not keys:
        return None
    shelf = _shelves.filled(connection, definition, keys)
    shares = shelf.likeness(own)[[shelf.keys[key] for key in keys]]
    best = int(shares.argmax())  # the first of several
    if shares[best] < NEAR:
        return None
    name = connection.scalars(select(t.Solution.name).where(t.Solution.hash == keys[best])).one()
    return Near(name, float(shares[best]))
