"""What is measured: definitions, workloads and baselines out of a dataset, frozen as editions.

A sync takes in what a dataset holds. Where that changes the list of things that make a score, a new edition opens and
the last one closes: its boards stay as they were.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sqlalchemy import Connection, bindparam, insert, select, update

from kernelmill.evaluator import JUDGE_VERSION
from kernelmill.leaderboard import audit, tokens
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.types import now
from kernelmill.leaderboard.errors import Conflict
from kernelmill.trace_schema import Definition, Solution, Workload

if TYPE_CHECKING:
    from kernelmill.dataset import Dataset

BASELINE = "baseline"
HIDDEN = "hidden"
Origin = Literal["dataset", "proposal"]


def judge_major() -> str:
    return JUDGE_VERSION.partition(".")[0]


@dataclass(slots=True)
class Synced:
    """What a sync took in."""

    definitions: int = 0
    workloads: int = 0
    solutions: int = 0
    edition: str | None = None
    """Of a new edition; None where nothing changed that makes a score."""
    problems: list[str] = field(default_factory=list)


def sync(connection: Connection, dataset: Dataset, *, by: str) -> Synced:
    """Take in definitions, workloads and solutions; what the dataset no longer has is no longer current.

    Traces are taken in by `ingest`, since there may be many. Raises Conflict where a name stands for another source.
    """
    done = Synced(problems=[str(problem) for problem in dataset.problems()])
    names = list(dataset.definitions)
    for name in names:
        definition = dataset.definitions[name]
        done.definitions += take_definition(connection, definition)
        done.workloads += take_workloads(connection, name, list(dataset.workloads(definition)))
        for solution in dataset.solutions(definition):
            done.solutions += take_solution(connection, solution)
    connection.execute(
        update(t.Definition)
        .where(t.Definition.name.not_in(names), t.Definition.origin == "dataset")
        .values(is_current=False)
    )
    done.edition = open_edition(connection)
    audit.note(connection, by, "catalog.sync", str(dataset.root.name), **_counts(done))
    return done


def take_definition(connection: Connection, definition: Definition, origin: Origin = "dataset") -> bool:
    """Make it the current one of its name; whether that changed what is measured."""
    named = t.Definition.name == definition.name
    current = connection.scalar(select(t.Definition.hash).where(named, t.Definition.is_current))
    key = definition.hash()
    row = {
        "op_type": definition.op_type,
        "description": definition.description,
        "body": definition.model_dump_json(exclude_unset=True),
        "origin": origin,
        "is_current": True,
    }
    connection.execute(update(t.Definition).where(named).values(is_current=False))
    known = connection.execute(update(t.Definition).where(named, t.Definition.hash == key).values(row)).rowcount
    if not known:
        connection.execute(insert(t.Definition).values(name=definition.name, hash=key, **row))
    return current != key


def take_workloads(connection: Connection, definition: str, workloads: Sequence[Workload]) -> int:
    """Make these the definition's workloads, beside accepted proposals; how many of them are new, changed or gone."""
    listed = {workload.uuid for workload in workloads}
    own = t.Workload
    of_dataset = select(own.id, own.uuid).where(own.definition == definition, own.is_current, own.origin == "dataset")
    gone = [row.id for row in connection.execute(of_dataset) if row.uuid not in listed]
    connection.execute(update(own).where(own.id.in_(gone)).values(is_current=False))
    return len(gone) + add_workloads(connection, definition, dict(enumerate(workloads)))


def add_workloads(
    connection: Connection, definition: str, workloads: Mapping[int, Workload], origin: Origin = "dataset"
) -> int:
    """Make each, by its position, the current one of its uuid; how many of them are new or changed."""
    own = t.Workload
    named = {each.uuid: (position, each) for position, each in workloads.items()}
    query = select(own.id, own.uuid, own.body, own.position).where(own.definition == definition, own.is_current)
    known = {row.uuid: row for row in connection.execute(query.where(own.uuid.in_(named)))}
    fresh, replaced, moved = [], [], []
    for uuid, (position, workload) in named.items():
        before, body = known.get(uuid), workload.model_dump_json(exclude_unset=True)
        if before is None or before.body != body:
            fresh.append(_workload_row(definition, position, workload, origin, body))
            replaced += [before.id] if before else []
        elif before.position != position:
            moved.append({"number": before.id, "place": position})
    connection.execute(update(own).where(own.id.in_(replaced)).values(is_current=False))
    if moved:
        place = update(own).where(own.id == bindparam("number")).values(position=bindparam("place"))
        connection.execute(place, moved)
    if fresh:
        connection.execute(insert(own), fresh)
    return len(fresh)


def _workload_row(definition: str, position: int, workload: Workload, origin: Origin, body: str) -> dict[str, object]:
    return {
        "uuid": workload.uuid,
        "hash": workload.hash(),
        "definition": definition,
        "position": position,
        "split": workload.split or "public",
        "weight": workload.weight,
        "body": body,
        "origin": origin,
        "is_current": True,
    }


def take_solution(connection: Connection, solution: Solution) -> bool:
    """Store a dataset's solution under its author; whether it was new. Raises Conflict for a name that is taken."""
    key = solution.hash()
    row = connection.execute(
        select(t.Solution.hash, t.Solution.name).where((t.Solution.hash == key) | (t.Solution.name == solution.name))
    ).first()
    if row is not None and row.hash != key:
        raise Conflict(f"the solution {solution.name!r} stands for another source here; rename it in the dataset")
    if row is not None:
        connection.execute(update(t.Solution).where(t.Solution.hash == key).values(is_public=True))
        return False
    kind: tokens.Kind = "person"
    connection.execute(
        insert(t.Solution).values(
            hash=key,
            name=solution.name,
            definition=solution.definition,
            author_id=tokens.ensure_author(connection, solution.author, kind),
            language=str(solution.spec.language),
            is_baseline=solution.author == BASELINE,
            derived_from=solution.derived_from,
            body=solution.model_dump_json(exclude_unset=True),
            is_public=True,
        )
    )
    return True


def open_edition(connection: Connection) -> str | None:
    """Open a new edition if the list of what makes a score has changed; its name, else None."""
    body = json.dumps(edition_list(connection), sort_keys=True, separators=(",", ":"))
    key = hashlib.sha256(body.encode()).hexdigest()
    current = connection.execute(select(t.Edition.id, t.Edition.hash).where(t.Edition.is_open)).one_or_none()
    if current is not None and current.hash == key:
        return None
    if current is not None:
        connection.execute(update(t.Edition).where(t.Edition.id == current.id).values(is_open=False))
    taken = set(connection.scalars(select(t.Edition.name)))
    name = next(name for name in _names(now().date().isoformat()) if name not in taken)
    number = connection.execute(
        insert(t.Edition).values(name=name, hash=key, body=body, is_open=True).returning(t.Edition.id)
    ).scalar_one()
    _carry_over(connection, number)
    return name


def edition_list(connection: Connection) -> dict[str, object]:
    """Everything that a score rests on, by hash."""
    definitions = connection.execute(select(t.Definition.name, t.Definition.hash).where(t.Definition.is_current))
    listed: dict[str, dict[str, object]] = {
        row.name: {"hash": row.hash, "workloads": {}, "baselines": []} for row in definitions
    }
    workloads = select(t.Workload.definition, t.Workload.uuid, t.Workload.hash, t.Workload.weight).where(
        t.Workload.is_current, t.Workload.split != HIDDEN
    )
    for row in connection.execute(workloads):
        if row.definition in listed:
            listed[row.definition]["workloads"][row.uuid] = [row.hash, row.weight]  # type: ignore[index]
    baselines = select(t.Solution.definition, t.Solution.hash).where(
        t.Solution.is_baseline, t.Solution.hidden_at.is_(None)
    )
    for definition, key in connection.execute(baselines.order_by(t.Solution.hash)):
        if definition in listed:
            listed[definition]["baselines"].append(key)  # type: ignore[attr-defined]
    return {"judge": judge_major(), "definitions": listed}


def current_edition(connection: Connection) -> int | None:
    return connection.scalar(select(t.Edition.id).where(t.Edition.is_open))


def without_hidden(connection: Connection, text: str | None) -> str | None:
    """What may be told to everybody of a reason that names workloads: a hidden one by no name."""
    if text is None:
        return None
    for uuid in connection.scalars(select(t.Workload.uuid).where(t.Workload.split == HIDDEN).distinct()):
        text = text.replace(uuid, "(hidden)")
    return text


def _carry_over(connection: Connection, edition: int) -> None:
    """Everything that has a ranked trace is to be ranked anew; what does not count any more drops out there."""
    pairs = select(t.Trace.definition, t.Trace.device_model, t.Trace.solution_hash).where(t.Trace.is_ranked).distinct()
    for row in connection.execute(pairs).all():
        connection.execute(insert(t.Share).values(edition_id=edition, is_stale=True, **row._mapping))
    boards = (
        select(t.Trace.definition, t.Trace.device_model, t.Definition.op_type)
        .join(t.Definition, (t.Definition.name == t.Trace.definition) & t.Definition.is_current)
        .where(t.Trace.is_ranked)
        .distinct()
    )
    for row in connection.execute(boards).all():
        connection.execute(insert(t.Board).values(edition_id=edition, is_stale=True, **row._mapping))


def _names(day: str) -> Iterable[str]:
    yield day
    yield from (f"{day}.{count}" for count in range(2, 1_000_000))


def _counts(done: Synced) -> dict[str, object]:
    return {"definitions": done.definitions, "workloads": done.workloads, "solutions": done.solutions}
