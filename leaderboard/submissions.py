"""Submissions: taken in whole and at once, looked at, cancelled.

A submission is on the disk before it is acknowledged. The same source submitted again shares the evaluation that is
there or on its way, and is told so. A source is stored once; where its name stands for another one already, a piece of
its hash makes the name unique.
"""

from __future__ import annotations

import difflib
import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, and_, func, insert, or_, select, true, update

from kernelmill.dataset import paths
from kernelmill.evaluator.run import is_for
from kernelmill.leaderboard import catalog, events, tokens
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.insert import insert_new
from kernelmill.leaderboard.db.types import AnyRow, now
from kernelmill.leaderboard.errors import Conflict, Forbidden, Invalid, NotFound, TooMany
from kernelmill.leaderboard.tokens import Principal
from kernelmill.trace_schema import Solution
from kernelmill.trace_schema.errors import DatasetError

OPEN = ("queued", "building", "judging")
TERMINAL = ("done", "cancelled", "failed")
SMALL = 8
"""A private run of so few workloads is somebody waiting at a keyboard: it goes first."""
STARVED_S = 600.0
"""Who waited so long goes first whatever comes in."""


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody wants judged. Without `workload_uuids` all; ranked unless only some are asked for."""

    solution: Solution
    device_model: str | None = None
    workload_uuids: Sequence[str] | None = None
    ranked: bool | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of it. `notes` tell what was changed or shared, and why."""

    id: str
    solution_hash: str
    solution_name: str
    author: str
    derived_from: str | None
    duplicate_of: str | None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Plan:
    """A request, checked against the catalogue."""

    edition_id: int
    definition_hash: str
    uuids: list[str] | None
    expected: int
    ranked: bool


def accept(connection: Connection, request: Request, who: Principal, *, per_hour: int) -> Accepted:
    """Queue it. Raises Invalid, Forbidden, TooMany."""
    if who.id is None:
        raise Forbidden("a submission needs an author; use a token")
    if who.is_banned:
        raise Forbidden(f"the author {who.name} is banned")
    _check_name(request.solution.name)
    plan = _plan(connection, request)
    check_quota(connection, who, request.device_model, per_hour)
    notes: list[str] = []
    author_id, author = _author(connection, request.solution, who, notes)
    stored = store_solution(connection, request.solution, author_id, author, notes, is_public=plan.ranked)
    original = None if stored.is_new else _same(connection, stored.hash, plan, request.device_model, who)
    if original is not None:
        notes.append(f"the same source is judged as submission {original}; this one shares its verdicts")
    number = uuid.uuid4().hex
    small = not plan.ranked and plan.expected <= SMALL
    row = {
        "id": number,
        "author_id": author_id,
        "solution_hash": stored.hash,
        "solution_name": request.solution.name,
        "definition": request.solution.definition,
        "definition_hash": plan.definition_hash,
        "edition_id": plan.edition_id,
        "device_model": request.device_model,
        "device_kind": _kind(request.solution),
        "workload_uuids": json.dumps(plan.uuids) if plan.uuids is not None else None,
        "is_ranked": plan.ranked,
        "priority": 0 if small else 1,
        "state": "queued",
        "expected": plan.expected,
        "duplicate_of": original,
    }
    connection.execute(insert(t.Submission), row)
    events.tell(connection, number, "state", state="queued")
    if original is not None:
        share(connection, original)
    return Accepted(number, stored.hash, stored.name, author, stored.derived_from, original, notes)


def check_quota(connection: Connection, who: Principal, device_model: str | None, per_hour: int) -> None:
    """Raises TooMany with the seconds until the next one is free. Counts under a lock on the author's row."""
    set_for_them = (
        select(t.Quota.per_hour)
        .where(or_(t.Quota.author_id == who.id, t.Quota.author_id.is_(None)))
        .where(or_(t.Quota.device_model == device_model, t.Quota.device_model.is_(None)))
        .order_by(t.Quota.author_id.is_(None), t.Quota.device_model.is_(None))
        .limit(1)
        .scalar_subquery()
    )
    # Not a lock that others' verdicts of this author wait for: key_share lets rows in that only name the author.
    lock = (
        select(set_for_them)
        .select_from(t.Author)
        .where(t.Author.id == who.id)
        .with_for_update(key_share=True, of=t.Author)
    )
    quota = connection.execute(lock).scalar_one()
    allowed = per_hour if quota is None else quota
    model = t.Submission.device_model
    in_the_way = (
        select(t.Submission.created_at)
        .where(t.Submission.author_id == who.id, t.Submission.created_at > now() - timedelta(hours=1))
        # One for any device takes the name of the device that takes it up, so it counts wherever it may come to lie.
        .where(or_(model == device_model, model.is_(None)) if device_model is not None else true())
        .order_by(t.Submission.created_at.desc())
        .offset(max(1, allowed) - 1)
        .limit(1)
    )
    first = connection.scalar(in_the_way)
    if allowed and first is None:
        return
    wait = (first + timedelta(hours=1) - now()).total_seconds() if first and allowed else 3600.0
    on = f" on {device_model}" if device_model else ""
    raise TooMany(f"{who.name} may submit {allowed} times an hour{on}", retry_after_s=max(1.0, wait))


def cancel(connection: Connection, number: str, who: Principal) -> None:
    """At once if it waits; else its dispatcher is asked to stop. Raises NotFound, Conflict."""
    row = find(connection, number, who, lock=True)
    if row.author_id != who.id and not who.is_admin:
        raise Forbidden("only its author and administrators may cancel a submission")
    if row.state in TERMINAL:
        raise Conflict(f"the submission {number} is {row.state} already")
    if row.state == "queued":
        end(connection, number, "cancelled", reason=f"cancelled by {who.name}")
    else:
        connection.execute(update(t.Submission).where(t.Submission.id == number).values(cancel_requested=True))


def end(
    connection: Connection, number: str, state: str, *, reason: str | None = None, outcome: str | None = None
) -> None:
    """Into a terminal state, and those that shared it with it: they end too, or one of them takes its place."""
    reason = catalog.without_hidden(connection, reason)
    values = {"state": state, "reason": reason, "outcome": outcome, "ended_at": now(), "holder": None}
    connection.execute(update(t.Submission).where(t.Submission.id == number).values(lease_until=None, **values))
    events.tell(connection, number, "state", state=state, reason=reason, outcome=outcome)
    if state == "done":
        share(connection, number)
    else:
        _free_followers(connection, number)


def share(connection: Connection, number: str) -> None:
    """If it is done, so are those that share it."""
    own = connection.execute(
        select(t.Submission.state, t.Submission.outcome, t.Submission.reason).where(t.Submission.id == number)
    ).one()
    if own.state != "done":
        return
    followers = select(t.Submission.id).where(t.Submission.duplicate_of == number, t.Submission.state == "queued")
    for follower in connection.scalars(followers).all():
        events.copy(connection, number, follower)
        end(connection, follower, "done", reason=own.reason, outcome=own.outcome)


def find(connection: Connection, number: str, who: Principal, *, lock: bool = False) -> AnyRow:
    """The submission's row, with what it is of and by whom. Raises NotFound, also for what is not theirs to see."""
    query = (
        select(
            t.Submission.__table__,
            t.Author.name.label("author"),
            t.Solution.name.label("stored_name"),
            t.Solution.derived_from,
        )
        .join(t.Author, t.Author.id == t.Submission.author_id)
        .join(t.Solution, t.Solution.hash == t.Submission.solution_hash)
        .where(t.Submission.id == number)
    )
    row = connection.execute(query.with_for_update(of=t.Submission) if lock else query).one_or_none()
    if row is None or not (row.is_ranked or who.is_admin or row.author_id == who.id):
        raise NotFound(f"there is no submission {number}")
    return row


def position(connection: Connection, row: AnyRow) -> int | None:
    """How many are before it, itself counted; None where it does not wait for a device."""
    if row.state != "queued" or row.duplicate_of is not None:
        return None
    same = t.Submission.device_model
    ahead = and_(
        t.Submission.state == "queued",
        t.Submission.duplicate_of.is_(None),
        or_(same == row.device_model, same.is_(None)) if row.device_model else same.is_(None),
        or_(
            t.Submission.priority < row.priority,
            and_(t.Submission.priority == row.priority, t.Submission.created_at < row.created_at),
        ),
    )
    return 1 + (connection.scalar(select(func.count()).select_from(t.Submission).where(ahead)) or 0)


def eta_s(connection: Connection, row: AnyRow, place: int | None) -> float | None:
    """A guess from what the last ones took; None where nothing is known."""
    if row.state in TERMINAL:
        return None
    last = (
        select(t.Submission.started_at, t.Submission.ended_at)
        .where(t.Submission.state == "done", t.Submission.started_at.is_not(None))
        .order_by(t.Submission.ended_at.desc())
        .limit(20)
    )
    took = [float((ended - began).total_seconds()) for began, ended in connection.execute(last) if began and ended]
    if not took:
        return None
    mean = sum(took) / len(took)
    if row.started_at is not None and row.state != "queued":
        return max(0.0, mean - float((now() - row.started_at).total_seconds()))
    return mean * (place or 1)


@dataclass(frozen=True, slots=True)
class Stored:
    hash: str
    name: str
    derived_from: str | None
    is_new: bool


def store_solution(
    connection: Connection, solution: Solution, author_id: int, author: str, notes: list[str], *, is_public: bool
) -> Stored:
    """The row of this source, made if it is new."""
    key = solution.hash()
    found = connection.execute(
        select(t.Solution.name, t.Solution.derived_from, t.Solution.author_id).where(t.Solution.hash == key)
    ).one_or_none()
    if found is not None:
        if found.author_id != author_id:
            notes.append(f"this very source was submitted before, as {found.name}; it stays its first author's")
        if is_public:
            connection.execute(update(t.Solution).where(t.Solution.hash == key).values(is_public=True))
        return Stored(key, found.name, found.derived_from, is_new=False)
    row: dict[str, Any] = {
        "hash": key,
        "definition": solution.definition,
        "author_id": author_id,
        "language": str(solution.spec.language),
        "derived_from": solution.derived_from,
        "is_public": is_public,
    }
    for name in (solution.name, f"{_shortened(solution.name)}-{key[:8]}"):
        kept = solution.model_copy(update={"name": name, "author": author})
        values = {
            "name": name,
            "is_baseline": author == catalog.BASELINE,
            "body": kept.model_dump_json(exclude_unset=True),
        }
        if insert_new(connection, t.Solution, row | values):
            break
    else:  # somebody stored it while we looked
        return store_solution(connection, solution, author_id, author, notes, is_public=is_public)
    if name != solution.name:
        notes.append(f"{solution.name!r} stands for another source here, so this one is called {name!r}")
    return Stored(key, name, row["derived_from"], is_new=True)


def _shortened(name: str) -> str:
    """To what is left of a file's name beside a piece of a hash, in bytes."""
    return name.encode()[:200].decode(errors="ignore").strip()


def _check_name(name: str) -> None:
    """A solution is a file when it is judged, and is asked for by name or by hash. Raises Invalid."""
    try:
        paths.segment(name, "solution")
    except DatasetError as error:
        raise Invalid("solution.name", str(error)) from error
    if re.fullmatch("[0-9a-f]{64}", name):
        raise Invalid("solution.name", "it reads like a hash; give it another name")


def _plan(connection: Connection, request: Request) -> Plan:
    name = request.solution.definition
    open_one = select(t.Edition.id).where(t.Edition.is_open).scalar_subquery()
    query = select(t.Definition.hash, open_one.label("edition"))
    current = connection.execute(query.where(t.Definition.name == name, t.Definition.is_current)).one_or_none()
    if current is None or current.edition is None:
        raise Invalid("solution.definition", f"there is no definition {name!r}{_near(connection, name)}")
    edition, known = current.edition, current.hash
    listed = select(t.Workload.uuid, t.Workload.split).where(t.Workload.definition == name, t.Workload.is_current)
    splits = {row.uuid: row.split for row in connection.execute(listed)}
    visible = [uuid for uuid, split in splits.items() if split != catalog.HIDDEN]
    asked = request.workload_uuids
    ranked = request.ranked if request.ranked is not None else asked is None
    if asked is None:
        uuids = None if ranked else visible
        return Plan(edition, known, uuids, len(splits) if ranked else len(visible), ranked)
    if ranked:
        raise Invalid("workload_uuids", "a ranked run takes all workloads; leave them out, or set ranked to false")
    if unknown := [uuid for uuid in asked if uuid not in visible]:
        raise Invalid("workload_uuids", f"{name} has no workload {unknown[0]!r}; GET /definitions/{name}/workloads")
    return Plan(edition, known, list(dict.fromkeys(asked)), len(set(asked)), ranked)


def _kind(solution: Solution) -> str | None:
    """The only kind of device that it is for, or None where it is for several."""
    kinds = [kind for kind in ("cpu", "cuda") if is_for(solution, kind)]
    return kinds[0] if len(kinds) == 1 else None


def _near(connection: Connection, name: str) -> str:
    names = connection.scalars(select(t.Definition.name).where(t.Definition.is_current)).all()
    near = difflib.get_close_matches(name, names, n=3)
    return f"; did you mean {' or '.join(near)}?" if near else "; GET /definitions lists them"


def _author(connection: Connection, solution: Solution, who: Principal, notes: list[str]) -> tuple[int, str]:
    """The token's owner; an administrator may submit in another's name, `baseline` and engines among them."""
    if who.is_admin and solution.author != who.name:
        return tokens.ensure_author(connection, solution.author), solution.author
    if solution.author != who.name:
        notes.append(f"the author is the token's owner, {who.name}, not {solution.author!r}")
    assert who.id is not None
    return who.id, who.name


def _same(connection: Connection, key: str, plan: Plan, device_model: str | None, who: Principal) -> str | None:
    """An evaluation of this source that is under way or done, and that says all that this one would."""
    own = t.Submission
    query = (
        select(own.id, own.workload_uuids)
        .where(own.solution_hash == key, own.duplicate_of.is_(None), own.state.in_((*OPEN, "done")))
        .where(own.edition_id == plan.edition_id)
        .where(own.is_ranked == plan.ranked, own.expected == plan.expected, own.cancel_requested.is_(False))
        .where(or_(own.is_ranked, own.author_id == who.id))
        .order_by(own.created_at)
    )
    if device_model is not None:
        query = query.where(own.device_model == device_model)
    wanted = None if plan.uuids is None else set(plan.uuids)
    for row in connection.execute(query):
        if wanted == (None if row.workload_uuids is None else set(json.loads(row.workload_uuids))):
            # Held until we are done, lest it end and share with everybody but us.
            connection.execute(select(own.id).where(own.id == row.id).with_for_update())
            return str(row.id)
    return None


def _free_followers(connection: Connection, number: str) -> None:
    """The first of those that shared it is judged on its own now, and the others share that."""
    query = (
        select(t.Submission.id)
        .where(t.Submission.duplicate_of == number, t.Submission.state == "queued")
        .order_by(t.Submission.created_at, t.Submission.id)
    )
    followers = list(connection.scalars(query))
    if not followers:
        return
    first = followers[0]
    connection.execute(update(t.Submission).where(t.Submission.id == first).values(duplicate_of=None))
    connection.execute(update(t.Submission).where(t.Submission.id.in_(followers[1:])).values(duplicate_of=first))
