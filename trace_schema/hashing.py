"""Identity of content: SHA-256 over tagged, length-prefixed fields.

Every value is written as its type's letter, its length and its bytes, so the encoding is prefix-free: two different
contents never give the same bytes, however text is shifted between fields. An absent value, an empty text and an empty
list differ; so do 1, 1.0 and True.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any


def digest(kind: str, content: Mapping[str, Any]) -> str:
    """Hex SHA-256 of `content`, JSON-like; `kind` keeps the hashes of different record types apart."""
    return hashlib.sha256(encode([kind, content])).hexdigest()


def encode(value: Any) -> bytes:
    """An injective encoding of None, bool, int, float, str, sequences (in order) and mappings (by sorted key)."""
    match value:
        case None:
            return b"n"
        case bool():
            return b"t" if value else b"f"
        case int():
            return _chunk(b"i", format(value, "x"))
        case float():
            return _chunk(b"d", repr(value))
        case str():
            return _chunk(b"s", value)
        case list() | tuple():
            return b"l%d:" % len(value) + b"".join(encode(item) for item in value)
        case Mapping():
            items = sorted(value.items())
            return b"m%d:" % len(items) + b"".join(encode(key) + encode(item) for key, item in items)
    raise TypeError(f"{type(value).__name__} has no hash encoding")


def _chunk(letter: bytes, text: str) -> bytes:
    data = text.encode()
    return letter + b"%d:" % len(data) + data
