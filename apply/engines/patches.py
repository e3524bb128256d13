"""Attributes replaced in other people's modules, and put back: the very same objects, in reverse order."""

from __future__ import annotations

from typing import Any, NamedTuple


class Patch(NamedTuple):
    owner: Any
    name: str
    original: Any
    replacement: Any


class Patches:
    """A stack of replaced attributes."""

    def __init__(self) -> None:
        self._made: list[Patch] = []

    def put(self, owner: Any, name: str, replacement: Any) -> None:
        """What stands there now is what comes back. A class's own attribute is read as it stands in its dict."""
        original = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
        setattr(owner, name, replacement)
        self._made.append(Patch(owner, name, original, replacement))

    def adopt(self, owner: Any, name: str, original: Any) -> None:
        """What somebody else has put there for us already, in place of `original`."""
        self._made.append(Patch(owner, name, original, owner.__dict__[name]))

    def undo(self) -> None:
        """What others have put over ours since is left alone."""
        while self._made:
            patch = self._made.pop()
            now = (
                patch.owner.__dict__[patch.name] if isinstance(patch.owner, type) else getattr(patch.owner, patch.name)
            )
            if now is patch.replacement:
                setattr(patch.owner, patch.name, patch.original)
