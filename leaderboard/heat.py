"""Every solution on every workload of a board: read from what is stored of it, without scoring again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select

from kernelmill.evaluator.cost import work_of
from kernelmill.evaluator.findings import Share
from kernelmill.evaluator.record import Finding
from kernelmill.evaluator.report.lines import number, ratio_line
from kernelmill.leaderboard import catalog
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.ranking import Head
from kernelmill.trace_schema import Definition, Workload


def heat_of(
    connection: Connection, edition: int, head: Head, board: Mapping[str, Any], start: int = 0, end: int | None = None
) -> dict[str, Any] | None:
    """Of the board's entries from `start` to `end`; None where its definition is no longer measured.

    `board` is `Ranking.board`'s, with the entries before `end`.
    """
    body = connection.scalar(
        select(t.Definition.body).where(t.Definition.name == head.definition, t.Definition.is_current)
    )
    if body is None:
        return None
    workloads = _workloads(connection, Definition.model_validate_json(body), board["summary"]["best_mix"]["choices"])
    entries = board["entries"][start:end]
    shares = _shares(connection, edition, head, {row["solution_hash"] for row in entries if row["solution_hash"]})
    return {"workloads": workloads, "rows": [_row(row, shares, workloads) for row in entries]}


def _workloads(
    connection: Connection, definition: Definition, choices: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The board's public ones, with the least that a call moves and computes."""
    query = select(t.Workload.uuid, t.Workload.body).where(
        t.Workload.definition == definition.name, t.Workload.is_current, t.Workload.split != catalog.HIDDEN
    )
    works = {row.uuid: work_of(definition, Workload.model_validate_json(row.body)) for row in connection.execute(query)}
    return [
        {
            "uuid": each["workload"],
            "axes": each["axes"],
            "weight": each["weight"],
            "baseline_ms": each["baseline_ms"],
            "bytes": works[each["workload"]].bytes,
            "flops": works[each["workload"]].flops,
        }
        for each in choices
        if each["workload"] in works
    ]


def _shares(connection: Connection, edition: int, head: Head, hashes: Collection[str]) -> dict[str, Share]:
    own = t.Share
    query = select(own.solution_hash, own.body).where(
        own.edition_id == edition, own.definition == head.definition, own.device_model == head.device_model
    )
    found = connection.execute(query.where(own.solution_hash.in_(hashes), own.body != ""))
    return {row.solution_hash: Share.from_json(row.body) for row in found}


def _row(row: Mapping[str, Any], shares: Mapping[str, Share], workloads: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    share = shares.get(row["solution_hash"])
    findings = share.record.findings if share and share.record else {}
    cells = [_cell(findings.get(workload["uuid"])) for workload in workloads]
    return {"solution": row["solution"], "solution_hash": row["solution_hash"], "cells": cells}


def _cell(finding: Finding | None) -> dict[str, Any] | None:
    if finding is None:
        return None
    return {
        "verdict": str(finding.verdict),
        "ratio": ratio_line(finding.ratio) if finding.ratio else None,
        "solution_ms": number(finding.solution_ms),
        "roofline_ms": number(finding.roofline_ms),
    }
