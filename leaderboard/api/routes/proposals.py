"""`/proposals` and `/events`: what others think should be measured, and what serving hosts saw."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy import Connection, insert, select, update

from kernelmill.dataset import paths
from kernelmill.leaderboard import audit, catalog
from kernelmill.leaderboard.api.context import Administrator, Reader, Submitter, TheService
from kernelmill.leaderboard.api.models import (
    Decision,
    Page,
    ProposalRequest,
    ProposalView,
    ReportItem,
    ReportRequest,
)
from kernelmill.leaderboard.api.replies import UNCHANGED, Cursor, Key, Limit, decode_cursor, once, page, tagged
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.types import AnyRow
from kernelmill.leaderboard.errors import Conflict, Invalid, NotFound
from kernelmill.trace_schema import Definition, Workload
from kernelmill.trace_schema.errors import DatasetError

router = APIRouter(tags=["proposals and reports"])
MOST_ID = (1 << 62) - 1
LONGEST_UUID = 255
AFTER_ALL = 1_000_000
"""The place of proposed workloads among the dataset's."""


@router.post("/proposals", status_code=201, response_model=ProposalView)
def propose(
    request: Request, service: TheService, who: Submitter, payload: ProposalRequest, key: Key = None
) -> Response:
    """Propose workloads for a definition, or a new definition with some; an administrator decides."""

    def work(connection: Connection) -> tuple[int, dict[str, Any]]:
        definition = _definition(connection, payload)
        _check_workloads(connection, definition, payload.workloads or [])
        row = {
            "author_id": who.id,
            "kind": "definition" if isinstance(payload.definition, Definition) else "workloads",
            "definition": definition.name,
            "body": payload.model_dump_json(exclude_unset=True),
        }
        number = connection.execute(insert(t.Proposal).values(row).returning(t.Proposal.id)).scalar_one()
        return 201, _proposal(_find(connection, number))

    return once(service.database, who, key, request, payload, work)


@router.get("/proposals", response_model=Page[ProposalView], responses=UNCHANGED)
def list_proposals(
    request: Request,
    service: TheService,
    who: Reader,
    state: Annotated[Literal["open", "accepted", "rejected"] | None, Query()] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """Proposals and what became of them."""
    after = decode_cursor(cursor, [int])
    query = _proposals()
    if state is not None:
        query = query.where(t.Proposal.state == state)
    if after is not None:
        query = query.where(t.Proposal.id > after[0])
    with service.database.read() as connection:
        rows = connection.execute(query.order_by(t.Proposal.id).limit(limit + 1)).all()
    items = [json.dumps(_proposal(row)) for row in rows[:limit]]
    return tagged(request, page(items, [rows[limit - 1].id] if len(rows) > limit else None))


@router.post("/proposals/{id}/decision", response_model=ProposalView)
def decide(request: Request, service: TheService, who: Administrator, id: int, payload: Decision) -> Response:
    """Accept a proposal, which takes it into the catalogue and opens a new edition, or reject it."""
    with service.database.write() as connection:
        row = _find(connection, id)
        if row.state != "open":
            raise Conflict(f"the proposal {id} is {row.state} already")
        if payload.accept:
            _take_in(connection, ProposalRequest.model_validate_json(row.body))
        state = "accepted" if payload.accept else "rejected"
        connection.execute(update(t.Proposal).where(t.Proposal.id == id).values(state=state, decided_by=who.name))
        audit.note(connection, who.name, f"proposal.{state}", str(id))
        view = _proposal(_find(connection, id))
    return Response(json.dumps(view), media_type="application/json")


@router.post("/events", status_code=201, response_model=ReportItem)
def report(request: Request, service: TheService, who: Submitter, payload: ReportRequest, key: Key = None) -> Response:
    """Tell that a solution was withdrawn from service, or became slower there; the board shows it."""
    evidence = payload.model_dump(mode="json")["evidence"]

    def work(connection: Connection) -> tuple[int, dict[str, Any]]:
        known = connection.scalar(
            select(t.Solution.hash).where(
                t.Solution.hash == payload.solution_hash, t.Solution.is_public, t.Solution.hidden_at.is_(None)
            )
        )
        if known is None:
            raise Invalid("solution_hash", f"there is no solution {payload.solution_hash}")
        row = {
            "author_id": who.id,
            "solution_hash": known,
            "kind": payload.kind,
            "evidence": json.dumps(evidence),
        }
        made = connection.execute(insert(t.Report).values(row).returning(t.Report.created_at)).scalar_one()
        edition = catalog.current_edition(connection)
        shares = (t.Share.edition_id == edition, t.Share.solution_hash == known)
        for share in connection.execute(select(t.Share.definition, t.Share.device_model).where(*shares)).all():
            connection.execute(update(t.Board).filter_by(edition_id=edition, **share._mapping).values(is_stale=True))
        body = {"kind": payload.kind, "author": who.name, "evidence": evidence, "created_at": made.isoformat()}
        return 201, body

    return once(service.database, who, key, request, payload, work)


def _definition(connection: Connection, proposal: ProposalRequest) -> Definition:
    """What is proposed, or what something is proposed for. Raises Invalid."""
    given = proposal.definition
    if isinstance(given, Definition):
        try:
            paths.definition_file(given.op_type, given.name)
        except DatasetError as error:
            raise Invalid("definition", str(error)) from error
        return given
    body = connection.scalar(select(t.Definition.body).where(t.Definition.name == given, t.Definition.is_current))
    if body is None:
        raise Invalid("definition", f"there is no definition {given!r}; to propose one, give all of it")
    if not proposal.workloads:
        raise Invalid("workloads", "give at least one workload")
    return Definition.model_validate_json(body)


def _check_workloads(connection: Connection, definition: Definition, workloads: list[Workload]) -> None:
    """Raises Invalid."""
    axes = set(definition.var_axes)
    known = set(connection.scalars(select(t.Workload.uuid).where(t.Workload.definition == definition.name)))
    for place, workload in enumerate(workloads):
        if set(workload.axes) != axes:
            listed = ", ".join(sorted(axes)) or "none"
            raise Invalid(f"workloads.{place}.axes", f"{definition.name} has the axes {listed}")
        if workload.uuid in known or len(workload.uuid) > LONGEST_UUID:
            raise Invalid(f"workloads.{place}.uuid", f"{workload.uuid[:99]} is there already, or is too long")
        known.add(workload.uuid)


def _take_in(connection: Connection, proposal: ProposalRequest) -> None:
    definition = proposal.definition
    name = definition.name if isinstance(definition, Definition) else definition
    if isinstance(definition, Definition):
        catalog.take_definition(connection, definition, "proposal")
    places = dict(enumerate(proposal.workloads or (), AFTER_ALL))
    catalog.add_workloads(connection, name, places, "proposal")
    catalog.open_edition(connection)


def _proposals() -> Any:
    own = t.Proposal
    columns = (own.id, own.kind, own.definition, own.state, own.body, own.created_at, t.Author.name.label("author"))
    return select(*columns).join(t.Author, t.Author.id == own.author_id)


def _find(connection: Connection, number: int) -> AnyRow:
    row = None
    if 0 < number <= MOST_ID:
        row = connection.execute(_proposals().where(t.Proposal.id == number)).one_or_none()
    if row is None:
        raise NotFound(f"there is no proposal {number}")
    return row


def _proposal(row: AnyRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "kind": row.kind,
        "definition": row.definition,
        "author": row.author,
        "state": row.state,
        "why": json.loads(row.body).get("why", ""),
        "created_at": row.created_at.isoformat(),
    }
