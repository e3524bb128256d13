"""Movers: what the history says of boards that became faster, told only where the intervals are sure of it."""

from __future__ import annotations

import json
from datetime import timedelta

from sqlalchemy import Connection, insert

from kernelmill.leaderboard import catalog
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.types import now
from kernelmill.leaderboard.movers import movers
from tests.leaderboard.world import World

WEEK = timedelta(days=7)


def add(connection: Connection, definition: str, days: float, ratio: float, spread: float = 0.1) -> None:
    """A head of so many days ago."""
    edition = catalog.current_edition(connection)
    told = {"ratio": ratio, "ci95": [ratio - spread, ratio + spread], "interval": "sessions"}
    body = json.dumps({"best_mix": told, "leader": None, "solutions": 1})
    connection.execute(
        insert(t.History).values(
            edition_id=edition, device_model="d", definition=definition, at=now() - timedelta(days=days), body=body
        )
    )


def test_what_surely_gained_is_told_most_gained_first(world: World) -> None:
    with world.database.write() as connection:
        for definition, was, is_now in (("a", 1.0, 1.5), ("b", 1.0, 3.0), ("same", 2.0, 2.1), ("slower", 2.0, 1.2)):
            add(connection, definition, 10, was)
            add(connection, definition, 3, 9.0)  # not the last word
            add(connection, definition, 1, is_now)
        add(connection, "new", 1, 1.3)
        add(connection, "new but unsure", 1, 1.05)
        add(connection, "old", 20, 5.0)
        found = movers(connection, catalog.current_edition(connection) or 0, now() - WEEK, 10)
        first = movers(connection, catalog.current_edition(connection) or 0, now() - WEEK, 1)
    assert [row["definition"] for row in found] == ["b", "a", "new"]
    assert [row["definition"] for row in first] == ["b"]
    assert found[0]["before"]["ratio"] == 1.0
    assert found[2]["before"] is None
