"""The audit log: who did what to what."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, insert

from kernelmill.leaderboard.db import tables as t


def note(connection: Connection, actor: str, action: str, target: str, **data: Any) -> None:
    """Part of the transaction that it tells of. Never give it a secret."""
    row = {"actor": actor, "action": action, "target": target[:255], "data": json.dumps(data, default=str)}
    connection.execute(insert(t.Audit).values(row))
