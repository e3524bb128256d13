"""Secrets never reach a file: known ones by value, others by their look. Applied where a text enters the journal."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

MARK = "[redacted]"
NAMES = re.compile(r"(API_?KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)", re.IGNORECASE)
SHORTEST = 8
"""A shorter value stands in too many innocent texts."""
LOOKS = re.compile(
    r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}"
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}"
    r"|\bhf_[A-Za-z0-9]{20,}"
    r"|\bAKIA[0-9A-Z]{16}\b"
    r"|(?i:\b(?:bearer|authorization:|x-api-key:)\s+[A-Za-z0-9._~+/=-]{16,})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)


def secrets_of(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Values of environment variables whose name says that they are secret, the longest first."""
    found = os.environ if environment is None else environment
    values = {value for name, value in found.items() if NAMES.search(name) and len(value) >= SHORTEST}
    return tuple(sorted(values, key=lambda value: (-len(value), value)))


def redacted(value: Any, secrets: tuple[str, ...] = ()) -> Any:
    """The same JSON value with every secret in its strings, keys included, replaced."""
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, MARK)
        return LOOKS.sub(MARK, value)
    if isinstance(value, Mapping):
        return {redacted(key, secrets): redacted(item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item, secrets) for item in value]
    return value
