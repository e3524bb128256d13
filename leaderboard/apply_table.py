"""What a serving host could install: the choices of the boards' best mix, with what they were judged on."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json
from sqlalchemy import Connection, func, select

from kernelmill.evaluator.machine import fingerprint
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.ranking import Head


def rows(connection: Connection, summary: dict[str, Any], head: Head) -> list[dict[str, Any]]:
    """One a workload on which some solution is surely faster than the baseline."""
    chosen = [choice for choice in summary["best_mix"]["choices"] if choice["solution_hash"]]
    environments = _environments(connection, head, {choice["solution_hash"] for choice in chosen})
    found = []
    for choice in chosen:
        environment = environments[choice["solution_hash"], choice["workload"]]
        libs = environment.get("libs") or {}
        found.append(
            {
                "definition": head.definition,
                "op_type": head.op_type,
                "device_model": head.device_model,
                "arch": (environment.get("device") or {}).get("arch"),
                "workload": choice["workload"],
                "axes": choice["axes"],
                "weight": choice["weight"],
                "solution": choice["solution"],
                "solution_hash": choice["solution_hash"],
                "baseline": summary["baseline"],
                "speedup": choice["ratio"],
                "libs": libs,
                "fingerprint": fingerprint(libs),
                "source": f"/api/v1/solutions/{choice['solution_hash']}",
            }
        )
    return found


def _environments(connection: Connection, head: Head, hashes: set[str]) -> dict[tuple[str, str], dict[str, Any]]:
    """Where each pair of solution and workload was judged last."""
    own = t.Trace
    last = (
        select(func.max(own.id))
        .where(own.solution_hash.in_(hashes), own.device_model == head.device_model)
        .where(own.definition == head.definition, own.is_ranked)
        .group_by(own.solution_hash, own.workload_uuid)
    )
    query = select(own.solution_hash, own.workload_uuid, own.body).where(own.id.in_(last))
    return {
        (row.solution_hash, row.workload_uuid): from_json(row.body)["evaluation"]["environment"]
        for row in connection.execute(query)
    }
