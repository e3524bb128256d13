"""Authors and their tokens. A token is shown once, when it is made; the database keeps its hash."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, insert, select, true, update

from kernelmill.leaderboard import audit
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.insert import insert_new
from kernelmill.leaderboard.db.types import now
from kernelmill.leaderboard.errors import Invalid, NotFound

PREFIX = "km_"
RESERVED = frozenset(
    {"baseline", "hidden", "flashinfer", "vllm", "sglang", "torch", "pytorch", "tensorrt-llm", "cublas"}
)
"""Names that stand for an operator's or an engine's own kernels; only an administrator's submissions carry them."""
UNFIT = frozenset("/\\<>\"'&")
"""Characters that no name may have."""
Kind = Literal["person", "agent"]


class Scope(StrEnum):
    """What a token may be used for; admin includes the others."""

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. `id` is None for somebody without a token."""

    id: int | None
    name: str
    scopes: frozenset[Scope]
    is_banned: bool = False

    @property
    def is_admin(self) -> bool:
        return Scope.ADMIN in self.scopes

    def may(self, scope: Scope) -> bool:
        return self.is_admin or scope in self.scopes


NOBODY = Principal(None, "anonymous", frozenset({Scope.READ}))


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def parse_scopes(text: str) -> frozenset[Scope]:
    """Of "submit,read". Raises Invalid."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = [scope.value for scope in Scope]
    if not names or any(name not in known for name in names):
        raise Invalid("scopes", f"{text!r} are no scopes; choose from {', '.join(known)}")
    return frozenset(Scope(name) for name in names)


def check_name(name: str) -> str:
    """A name that may stand in a path, a page and a file. Raises Invalid."""
    fine = 0 < len(name) <= 64 and name.isprintable() and name == name.strip() and not UNFIT & set(name)
    if not fine or name in (".", ".."):
        raise Invalid("name", f"{name!r} is no author's name: 1 to 64 printable characters without /, \\, <, >, quotes")
    return name


def find_author(connection: Connection, name: str) -> int:
    """Raises NotFound."""
    found = connection.scalar(select(t.Author.id).where(t.Author.name == name))
    if found is None:
        raise NotFound(f"no author is called {name!r}")
    return found


def ensure_author(
    connection: Connection, name: str, kind: Kind = "person", *, model: str | None = None, harness: str | None = None
) -> int:
    """The author of that name, made if need be; what is given of an agent is kept."""
    check_name(name)
    found = connection.scalar(select(t.Author.id).where(t.Author.name == name))
    if found is None:
        insert_new(connection, t.Author, {"name": name, "kind": kind, "model": model, "harness": harness})
        return find_author(connection, name)
    if model or harness:
        connection.execute(update(t.Author).where(t.Author.id == found).values(kind=kind, model=model, harness=harness))
    return found


def create(connection: Connection, author_id: int, scopes: Iterable[Scope], days: float | None, *, by: str) -> str:
    """A new token of the author's; it can't be told again."""
    token = PREFIX + secrets.token_urlsafe(32)
    row = {
        "author_id": author_id,
        "hash": digest(token),
        "scopes": ",".join(sorted(scopes)),
        "expires_at": now() + timedelta(days=days) if days is not None else None,
    }
    number = connection.execute(insert(t.Token).values(row).returning(t.Token.id)).scalar_one()
    audit.note(connection, by, "token.create", str(number), author=author_id, scopes=row["scopes"])
    return token


def revoke(connection: Connection, number: int, *, by: str, author_id: int | None = None) -> None:
    """With an author: only one of theirs. Raises NotFound for one that is not there or no longer valid."""
    mine = true() if author_id is None else t.Token.author_id == author_id
    changed = connection.execute(
        update(t.Token).where(t.Token.id == number, t.Token.revoked_at.is_(None), mine).values(revoked_at=now())
    )
    if not changed.rowcount:
        raise NotFound(f"there is no valid token {number}; list the tokens to see which there are")
    audit.note(connection, by, "token.revoke", str(number))


def listed(connection: Connection) -> list[dict[str, Any]]:
    """Every token ever made, without its secret."""
    own = t.Token
    columns = (own.id, t.Author.name.label("author"), own.scopes, own.created_at, own.expires_at, own.revoked_at)
    query = select(*columns).join(t.Author, t.Author.id == own.author_id).order_by(own.id)
    return [dict(row._mapping) for row in connection.execute(query)]


def valid_of(connection: Connection, author_id: int) -> list[dict[str, Any]]:
    """An author's tokens that are valid now, without their secrets."""
    own = t.Token
    query = select(own.id, own.scopes, own.created_at, own.expires_at).where(own.author_id == author_id, _is_valid())
    return [dict(row._mapping) for row in connection.execute(query.order_by(own.id))]


def _is_valid() -> ColumnElement[bool]:
    return t.Token.revoked_at.is_(None) & (t.Token.expires_at.is_(None) | (t.Token.expires_at > now()))


def has_administrator(connection: Connection) -> bool:
    """Whether anybody holds a token that is valid now and has the scope admin."""
    found = connection.scalars(select(t.Token.scopes).where(_is_valid()))
    return any(Scope.ADMIN in parse_scopes(scopes) for scopes in found)


def principal_of(connection: Connection, token: str) -> Principal | None:
    """Who holds this token, if it is valid now."""
    query = (
        select(t.Author.id, t.Author.name, t.Author.banned_at, t.Token.scopes, t.Token.expires_at)
        .join(t.Author, t.Author.id == t.Token.author_id)
        .where(t.Token.hash == digest(token), t.Token.revoked_at.is_(None))
    )
    row = connection.execute(query).one_or_none()
    if row is None or (row.expires_at is not None and row.expires_at <= now()):
        return None
    return Principal(row.id, row.name, parse_scopes(row.scopes), row.banned_at is not None)


def principal_by_id(connection: Connection, number: int) -> Principal | None:
    """Who signed in as this author: a person, who may submit; administrators use a token."""
    row = connection.execute(
        select(t.Author.id, t.Author.name, t.Author.banned_at).where(t.Author.id == number)
    ).first()
    if row is None:
        return None
    return Principal(row.id, row.name, frozenset({Scope.READ, Scope.SUBMIT}), row.banned_at is not None)
