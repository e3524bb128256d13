"""`/definitions`: what is measured."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request, Response
from sqlalchemy import func, select

from kernelmill.leaderboard import catalog
from kernelmill.leaderboard.api.context import Reader, TheService
from kernelmill.leaderboard.api.models import DefinitionItem, EditionItem, Listed, Page
from kernelmill.leaderboard.api.replies import UNCHANGED, Cursor, Filter, Limit, decode_cursor, page, tagged
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.errors import NotFound
from kernelmill.trace_schema import Definition, Workload

router = APIRouter(tags=["catalogue"], responses=UNCHANGED)


@router.get("/definitions", response_model=Page[DefinitionItem])
def list_definitions(
    request: Request, service: TheService, who: Reader, op_type: Filter = None, cursor: Cursor = None, limit: Limit = 50
) -> Response:
    """Every definition, by name."""
    after = decode_cursor(cursor, [str])
    own = t.Definition
    workloads = (
        select(func.count())
        .where(t.Workload.definition == own.name, t.Workload.is_current, t.Workload.split != catalog.HIDDEN)
        .scalar_subquery()
    )
    solutions = (
        select(func.count())
        .where(t.Solution.definition == own.name, t.Solution.is_public, t.Solution.hidden_at.is_(None))
        .scalar_subquery()
    )
    query = select(own.name, own.op_type, own.hash, own.description, workloads, solutions).where(own.is_current)
    if op_type is not None:
        query = query.where(own.op_type == op_type)
    if after is not None:
        query = query.where(own.name > after[0])
    with service.database.read() as connection:
        rows = connection.execute(query.order_by(own.name).limit(limit + 1)).all()
    names = ("name", "op_type", "hash", "description", "workloads", "solutions")
    items = [json.dumps(dict(zip(names, row, strict=True))) for row in rows[:limit]]
    return tagged(request, page(items, [rows[limit - 1].name] if len(rows) > limit else None))


@router.get("/definitions/{name}", response_model=Definition)
def get_definition(request: Request, service: TheService, who: Reader, name: str) -> Response:
    """The definition itself, as it is measured today."""
    with service.database.read() as connection:
        body = connection.scalar(select(t.Definition.body).where(t.Definition.name == name, t.Definition.is_current))
    if body is None:
        raise NotFound(f"there is no definition {name!r}")
    return tagged(request, body)


@router.get("/definitions/{name}/workloads", response_model=Page[Workload])
def list_workloads(
    request: Request, service: TheService, who: Reader, name: str, cursor: Cursor = None, limit: Limit = 50
) -> Response:
    """Its public workloads, in the dataset's order; an administrator sees the hidden ones, too."""
    after = decode_cursor(cursor, [int, int])
    own = t.Workload
    query = select(own.id, own.position, own.body).where(own.definition == name, own.is_current)
    if not who.is_admin:
        query = query.where(own.split != catalog.HIDDEN)
    if after is not None:
        position, number = after
        query = query.where((own.position > position) | ((own.position == position) & (own.id > number)))
    with service.database.read() as connection:
        known = connection.scalar(select(t.Definition.name).where(t.Definition.name == name, t.Definition.is_current))
        rows = connection.execute(query.order_by(own.position, own.id).limit(limit + 1)).all()
    if known is None:
        raise NotFound(f"there is no definition {name!r}")
    last = rows[limit - 1] if len(rows) > limit else None
    items = [row.body for row in rows[:limit]]
    return tagged(request, page(items, [last.position, last.id] if last else None), private=who.is_admin)


@router.get("/editions", response_model=Listed[EditionItem])
def list_editions(request: Request, service: TheService, who: Reader) -> Response:
    """The frozen lists that boards are about, newest first."""
    own = t.Edition
    with service.database.read() as connection:
        rows = connection.execute(select(own.name, own.hash, own.is_open, own.created_at).order_by(own.id.desc())).all()
    items = [{**row._mapping, "created_at": row.created_at.isoformat()} for row in rows]
    return tagged(request, json.dumps({"items": items}))


@router.get("/editions/{name}", response_model=dict[str, Any])
def get_edition(request: Request, service: TheService, who: Reader, name: str) -> Response:
    """The whole list of an edition: definitions, workloads and baselines by hash, and the judge's major version."""
    with service.database.read() as connection:
        body = connection.scalar(select(t.Edition.body).where(t.Edition.name == name))
    if body is None:
        raise NotFound(f"there is no edition {name!r}")
    return tagged(request, body)
