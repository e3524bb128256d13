"""Traces: stored once, counted at once, shown to who may see them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, select, update

from kernelmill.evaluator.admission import device_model_of
from kernelmill.leaderboard import catalog, events, leases
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.insert import insert_new
from kernelmill.leaderboard.db.types import AnySelect, now
from kernelmill.leaderboard.leases import Lease
from kernelmill.leaderboard.tokens import Principal
from kernelmill.trace_schema import Trace, Verdict

ALWAYS = (Verdict.CHEAT_DETECTED.value, Verdict.SUSPECT.value)
"""Verdicts that count even where the run was private: who tries in secret until it is not caught, is caught."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose solution a trace is of, and how it may be shown."""

    solution_hash: str
    author_id: int
    is_ranked: bool
    submission_id: str | None = None


def record(connection: Connection, lease: Lease, trace: Trace) -> bool:
    """The verdict that a lease brought; False where its workload has one already. Raises leases.LeaseLost."""
    leases.check(connection, lease)
    author = connection.scalar(select(t.Submission.author_id).where(t.Submission.id == lease.id))
    assert author is not None
    if not store(connection, trace, Owner(lease.solution_hash, author, lease.is_ranked, lease.id)):
        return False
    events.tell(connection, lease.id, "verdict", **told(trace))
    return True


def store(connection: Connection, trace: Trace, owner: Owner) -> bool:
    """Write it and mark the boards that it changes; False if it is there already."""
    body = trace.model_dump_json(exclude_unset=True)
    evaluation = trace.evaluation
    assert evaluation is not None
    subject = evaluation.subject
    row = {
        "digest": hashlib.sha256(body.encode()).hexdigest(),
        "submission_id": owner.submission_id,
        "solution_hash": owner.solution_hash,
        "author_id": owner.author_id,
        "definition": trace.definition,
        "workload_uuid": trace.workload.uuid,
        "device_model": device_model_of(trace),
        "status": evaluation.status.value,
        "verdict": evaluation.effective_verdict.value,
        "session": subject.session if subject else None,
        "is_hidden": trace.workload.split == catalog.HIDDEN,
        "is_ranked": owner.is_ranked,
        "body": body,
    }
    if not insert_new(connection, t.Trace, row):
        return False
    _note_sitting(connection, trace, owner)
    if owner.is_ranked or (row["verdict"] in ALWAYS and _is_on_a_board(connection, owner.solution_hash)):
        mark_stale(connection, owner.solution_hash, trace.definition, str(row["device_model"]))
    return True


def mark_stale(connection: Connection, solution_hash: str, definition: str, device_model: str) -> None:
    """This board, and every other one that the solution is on: a cheat on one device bars it on all.

    Boards before shares, in order: `boards.refresh` locks them so, too.
    """
    edition = catalog.current_edition(connection)
    op_type = connection.scalar(
        select(t.Definition.op_type).where(t.Definition.name == definition, t.Definition.is_current)
    )
    if edition is None or op_type is None:
        return
    elsewhere = select(t.Share.device_model).where(
        t.Share.edition_id == edition, t.Share.solution_hash == solution_hash
    )
    for model in sorted({device_model, *connection.scalars(elsewhere)}):
        key = {"edition_id": edition, "definition": definition, "device_model": model}
        insert_new(connection, t.Board, {**key, "op_type": op_type})
        connection.execute(update(t.Board).filter_by(**key).values(is_stale=True))
        insert_new(connection, t.Share, {**key, "solution_hash": solution_hash})
        connection.execute(update(t.Share).filter_by(**key, solution_hash=solution_hash).values(is_stale=True))


def told(trace: Trace) -> dict[str, Any]:
    """What a watcher is told of a verdict: on a hidden workload its status and how large the error was, roughly."""
    evaluation = trace.evaluation
    assert evaluation is not None
    verdict, error = evaluation.effective_verdict.value, None
    if evaluation.correctness is not None:
        error = bucket(evaluation.correctness.max_relative_error)
    if trace.workload.split == catalog.HIDDEN:
        return {"hidden": True, "status": evaluation.status.value, "error": error}
    times = evaluation.statistics
    return {
        "workload_uuid": trace.workload.uuid,
        "axes": dict(trace.workload.axes),
        "status": evaluation.status.value,
        "verdict": verdict,
        "reason": evaluation.reason,
        "ratio": times.ratio if times else None,
        "ratio_ci95": list(times.ratio_ci95) if times and times.ratio_ci95 else None,
        "median_ms": times.median_ms if times else None,
        "error": error,
    }


def bucket(error: float | None) -> str | None:
    """An error's order of magnitude: enough to mend a kernel, too little to fit it to what is hidden."""
    if error is None:
        return None
    for limit in ("1e-6", "1e-4", "1e-2", "1"):
        if error <= float(limit):
            return f"<= {limit}"
    return "> 1"


def visible(query: AnySelect, who: Principal) -> AnySelect:
    """What this one may see: ranked and not hidden, and an author's own private runs; of no solution taken away."""
    if who.is_admin:
        return query
    shown = t.Trace.is_ranked if who.id is None else t.Trace.is_ranked | (t.Trace.author_id == who.id)
    moderated = select(t.Solution.hash).where(t.Solution.hidden_at.is_not(None))
    return query.where(t.Trace.is_hidden.is_(False), shown, t.Trace.solution_hash.not_in(moderated))


def bodies(connection: Connection, query: AnySelect, after: int, limit: int) -> tuple[Sequence[tuple[int, str]], bool]:
    """(id, JSON text) of one page in order, and whether there is more."""
    rows = connection.execute(query.where(t.Trace.id > after).order_by(t.Trace.id).limit(limit + 1)).all()
    return [(row.id, row.body) for row in rows[:limit]], len(rows) > limit


def forget_submission(connection: Connection, number: str) -> None:
    """Drop its verdicts, so that it is judged again whole: an administrator's requeue."""
    rows = connection.execute(
        select(t.Trace.definition, t.Trace.device_model, t.Trace.solution_hash)
        .where(t.Trace.submission_id == number, t.Trace.is_ranked)
        .distinct()
    ).all()
    connection.execute(delete(t.Trace).where(t.Trace.submission_id == number))
    for row in rows:
        mark_stale(connection, row.solution_hash, row.definition, row.device_model)


def _is_on_a_board(connection: Connection, solution_hash: str) -> bool:
    return (
        connection.scalar(select(t.Share.definition).where(t.Share.solution_hash == solution_hash).limit(1)) is not None
    )


def _note_sitting(connection: Connection, trace: Trace, owner: Owner) -> None:
    evaluation = trace.evaluation
    assert evaluation is not None
    environment, subject = evaluation.environment, evaluation.subject
    model = device_model_of(trace)
    device = environment.device
    libs = json.dumps(environment.libs or {}, sort_keys=True)
    kind = "cuda" if ((device and device.arch) or "").startswith("sm_") else "cpu"
    insert_new(connection, t.Device, {"model": model, "kind": kind})
    arch = device.arch if device else None
    changed = (t.Device.libs != libs) | t.Device.arch.is_distinct_from(arch)
    connection.execute(update(t.Device).where(t.Device.model == model, changed).values(arch=arch, libs=libs))
    if subject is not None and subject.session is not None:
        row = {
            "id": subject.session,
            "device_model": model,
            "judge_version": subject.judge_version,
            "sandbox": environment.sandbox,
            "submission_id": owner.submission_id,
            "started_at": now(),
        }
        insert_new(connection, t.Session, row)
