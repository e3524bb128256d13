"""Authors who signed in. The provider's identifier tells them apart; a name that somebody chose there never does."""

from __future__ import annotations

import secrets
import unicodedata
from collections.abc import Iterator

from sqlalchemy import Connection, func, select

from kernelmill.leaderboard import audit, tokens
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.insert import insert_new
from kernelmill.leaderboard.errors import Conflict

RESERVED = tokens.RESERVED | {"admin", "administrator", "anonymous", "cli", "kernelmill", "local", "root", "serve"}
"""Besides the kernels that they stand for: names that act in the audit log, or that a reader would take for us."""
LONGEST = 48
NAMELESS = "person"


def find_or_make(connection: Connection, subject: str, wished: str) -> int:
    """The author whom the provider calls `subject`. A new one gets the name that they wish if it is free, or one like
    it; an author who is there already keeps theirs."""
    found = _find(connection, subject)
    if found is not None:
        return found
    for name in _candidates(clean(wished)):
        if _is_taken(connection, name):
            continue
        is_new = insert_new(connection, t.Author, {"name": name, "kind": "person", "subject": subject})
        found = _find(connection, subject)  # there without being new: the same person's other tab was first
        if found is not None:
            if is_new:
                audit.note(connection, name, "author.create", name, author=found)
            return found
    raise Conflict("no free name was found; sign in again")


def clean(wished: str) -> str:
    """As `tokens.check_name` wants it, with room for a suffix. Of an e-mail address only what is before the @."""
    text = unicodedata.normalize("NFKC", wished).strip().lstrip("@").partition("@")[0]
    spaced = " ".join(text.split())
    kept = "".join(each for each in spaced if each.isprintable() and each not in tokens.UNFIT)
    name = " ".join(kept.split())[:LONGEST].strip()
    return name if name.strip(".") else NAMELESS


def _find(connection: Connection, subject: str) -> int | None:
    return connection.scalar(select(t.Author.id).where(t.Author.subject == subject))


def _candidates(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}-{number}" for number in range(2, 10))
    yield from (f"{name}-{secrets.token_hex(4)}" for _ in range(3))


def _is_taken(connection: Connection, name: str) -> bool:
    """By whatever case of letters, which a reader could take for the same."""
    if name.casefold() in RESERVED:
        return True
    query = select(t.Author.id).where(func.lower(t.Author.name) == name.lower())
    return connection.execute(query.limit(1)).first() is not None
