"""Which boards moved: best mixes that are surely faster than they were some days ago."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select

from kernelmill.leaderboard.db import tables as t

Place = tuple[str, str]
"""Device model and definition."""


def movers(connection: Connection, edition: int, since: datetime, limit: int) -> list[dict[str, Any]]:
    """Most gained first: best mixes whose lower bound is above the upper bound that they had at `since`.

    A board that was not there at `since` began at 1, where every deployment stands without it.
    """
    now, before = _heads(connection, edition, since, True), _heads(connection, edition, since, False)
    found = []
    for place, head in now.items():
        was = before.get(place, {}).get("best_mix")
        is_now = head.get("best_mix")
        if is_now is None or float(is_now["ci95"][0]) <= (float(was["ci95"][1]) if was else 1.0):
            continue
        gained = float(is_now["ratio"]) / (float(was["ratio"]) if was else 1.0)
        found.append(
            {
                "device_model": place[0],
                "definition": place[1],
                "before": was,
                "now": is_now,
                "leader": head["leader"],
                "gained": gained,
            }
        )
    return sorted(found, key=lambda row: (-row["gained"], row["device_model"], row["definition"]))[:limit]


def _heads(connection: Connection, edition: int, since: datetime, after: bool) -> Mapping[Place, dict[str, Any]]:
    """The last head of each board from `since` on, or before it."""
    own = t.History
    when = own.at >= since if after else own.at < since
    last = select(func.max(own.id)).where(own.edition_id == edition, when).group_by(own.device_model, own.definition)
    query = select(own.device_model, own.definition, own.body).where(own.id.in_(last))
    return {(row.device_model, row.definition): json.loads(row.body) for row in connection.execute(query)}
