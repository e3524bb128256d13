"""Replies: pages with a cursor, bodies that are not sent again while they are the same, answers given once."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

from fastapi import Header, Query, Request, Response
from pydantic import BaseModel
from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import IntegrityError

from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.errors import Invalid
from kernelmill.leaderboard.tokens import Principal

JSON = "application/json"
UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "It is as If-None-Match says"}}
Limit = Annotated[int, Query(ge=1, le=500, description="Most items of a page.")]
Cursor = Annotated[str | None, Query(max_length=600, description="`next` of the page before.")]
Filter = Annotated[str | None, Query(max_length=255)]
Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", min_length=1, max_length=255, description="The same key has one effect only."),
]


def encode_cursor(place: Sequence[str | int]) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None, kinds: Sequence[type]) -> list[Any] | None:
    """Raises Invalid for what no page gave."""
    if cursor is None:
        return None
    try:
        place = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error):
        place = None
    fits = isinstance(place, list) and [type(part) for part in place] == list(kinds)
    if not fits or any(isinstance(part, int) and abs(part) >= 1 << 62 for part in place):
        raise Invalid("cursor", "it is of no page; start without one")
    if any(isinstance(part, str) and not _is_storable(part) for part in place):
        raise Invalid("cursor", "it is of no page; start without one")
    return list(place)


def _is_storable(text: str) -> bool:
    """No NUL, and no lone surrogate: no database has such a text, and asking for it is an error."""
    return "\0" not in text and text == text.encode(errors="replace").decode()


def page(items: Iterable[str], cursor: Sequence[str | int] | None) -> str:
    """`items` are JSON texts."""
    following = json.dumps(encode_cursor(cursor)) if cursor is not None else "null"
    return f'{{"items":[{",".join(items)}],"next":{following}}}'


def tagged(request: Request, body: str | bytes, *, tag: str | None = None, private: bool = False) -> Response:
    """With an ETag; 304 without a body to whoever has this very body already."""
    data = body.encode() if isinstance(body, str) else body
    etag = tag or hashlib.blake2b(data, digest_size=16).hexdigest()
    headers = {
        "ETag": f'"{etag}"',
        "Cache-Control": "private, no-cache" if private else "no-cache",
        "Vary": "Authorization, Cookie",
    }
    if has(request, etag):
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=JSON, headers=headers)


def has(request: Request, tag: str) -> bool:
    """Whether who asks has the body of this tag already."""
    known = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    return f'"{tag}"' in known or "*" in known


def once(
    database: Database,
    who: Principal,
    key: str | None,
    request: Request,
    payload: BaseModel,
    work: Callable[[Connection], tuple[int, dict[str, Any]]],
) -> Response:
    """Do `work` in one transaction; with a key that was used before, give the first answer again and do nothing.

    Raises Invalid where the key came with another request.
    """
    if key is not None and not key.isprintable():
        raise Invalid("Idempotency-Key", "printable characters only")
    text = f"{request.method} {request.url.path} {payload.model_dump_json()}"
    digest = hashlib.sha256(text.encode()).hexdigest()
    try:
        with database.write() as connection:
            if (known := _known(connection, who, key, digest)) is not None:
                return known
            status, body = work(connection)
            if key is not None:
                row = {"author_id": who.id, "key": key, "request": digest, "status": status, "body": json.dumps(body)}
                connection.execute(insert(t.Reply).values(row))
    except IntegrityError:  # the same key at the same moment: the other was first, and ours is undone
        with database.read() as connection:
            if (known := _known(connection, who, key, digest)) is not None:
                return known
        raise
    return Response(json.dumps(body), status, media_type=JSON)


def _known(connection: Connection, who: Principal, key: str | None, digest: str) -> Response | None:
    if key is None:
        return None
    query = select(t.Reply.request, t.Reply.status, t.Reply.body).where(t.Reply.author_id == who.id, t.Reply.key == key)
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    if row.request != digest:
        raise Invalid("Idempotency-Key", "it was used with another request; use a new one")
    return Response(row.body, row.status, media_type=JSON, headers={"Idempotent-Replay": "true"})
