"""`/solutions`, `/authors`: who wrote what."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request, Response
from sqlalchemy import select

from kernelmill.leaderboard.api.context import Reader, TheService
from kernelmill.leaderboard.api.models import AuthorItem, Page, SolutionDetail, SolutionItem
from kernelmill.leaderboard.api.replies import UNCHANGED, Cursor, Filter, Limit, decode_cursor, page, tagged
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.types import AnyRow, AnySelect
from kernelmill.leaderboard.errors import NotFound
from kernelmill.leaderboard.tokens import Principal

router = APIRouter(tags=["solutions"], responses=UNCHANGED)
COLUMNS = (
    t.Solution.hash,
    t.Solution.name,
    t.Solution.definition,
    t.Author.name.label("author"),
    t.Solution.language,
    t.Solution.is_baseline,
    t.Solution.derived_from,
    t.Solution.likeness,
    t.Solution.created_at,
)


@router.get("/solutions", response_model=Page[SolutionItem])
def list_solutions(
    request: Request,
    service: TheService,
    who: Reader,
    definition: Filter = None,
    author: Filter = None,
    language: Filter = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """Solutions without their sources, by hash; an author sees their own private ones, too."""
    after = decode_cursor(cursor, [str])
    query = _visible(select(*COLUMNS).join(t.Author, t.Author.id == t.Solution.author_id), who)
    for column, wanted in (
        (t.Solution.definition, definition),
        (t.Author.name, author),
        (t.Solution.language, language),
    ):
        if wanted is not None:
            query = query.where(column == wanted)
    if after is not None:
        query = query.where(t.Solution.hash > after[0])
    with service.database.read() as connection:
        rows = connection.execute(query.order_by(t.Solution.hash).limit(limit + 1)).all()
    items = [json.dumps(_item(row)) for row in rows[:limit]]
    return tagged(
        request, page(items, [rows[limit - 1].hash] if len(rows) > limit else None), private=who.id is not None
    )


@router.get("/solutions/{hash}", response_model=SolutionDetail)
def get_solution(request: Request, service: TheService, who: Reader, hash: str) -> Response:
    """One solution with its sources, by the SHA-256 that identifies it, or by its name here."""
    column = t.Solution.hash if len(hash) == 64 else t.Solution.name
    query = _visible(
        select(*COLUMNS, t.Solution.body).join(t.Author, t.Author.id == t.Solution.author_id).where(column == hash), who
    )
    with service.database.read() as connection:
        row = connection.execute(query).one_or_none()
        if row is None:
            raise NotFound(f"there is no solution {hash!r}")
        reports = connection.execute(
            select(t.Report.kind, t.Author.name, t.Report.evidence, t.Report.created_at)
            .join(t.Author, t.Author.id == t.Report.author_id)
            .where(t.Report.solution_hash == row.hash)
            .order_by(t.Report.id)
        ).all()
    told = [
        {
            "kind": each.kind,
            "author": each.name,
            "evidence": json.loads(each.evidence),
            "created_at": each.created_at.isoformat(),
        }
        for each in reports
    ]
    item = json.dumps({**_item(row), "reports": told})
    return tagged(request, f'{item[:-1]}, "solution": {row.body}}}', private=who.id is not None)


@router.get("/authors", response_model=Page[AuthorItem])
def list_authors(
    request: Request, service: TheService, who: Reader, cursor: Cursor = None, limit: Limit = 50
) -> Response:
    """People and agents, by name."""
    after = decode_cursor(cursor, [str])
    own = t.Author
    query = select(own.name, own.kind, own.model, own.harness, own.created_at).where(own.banned_at.is_(None))
    if after is not None:
        query = query.where(own.name > after[0])
    with service.database.read() as connection:
        rows = connection.execute(query.order_by(own.name).limit(limit + 1)).all()
    items = [json.dumps({**row._mapping, "created_at": row.created_at.isoformat()}) for row in rows[:limit]]
    following = [rows[limit - 1].name] if len(rows) > limit else None
    return tagged(request, page(items, following))


def _visible(query: AnySelect, who: Principal) -> AnySelect:
    if who.is_admin:
        return query
    shown = t.Solution.is_public if who.id is None else t.Solution.is_public | (t.Solution.author_id == who.id)
    return query.where(shown, t.Solution.hidden_at.is_(None))


def _item(row: AnyRow) -> dict[str, Any]:
    item = {column.key: getattr(row, column.key) for column in COLUMNS}
    return item | {"created_at": row.created_at.isoformat()}
