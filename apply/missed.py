"""What a dispatcher returns in place of a result: the caller runs its own kernel then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from kernelmill.apply.errors import NoFallback

Fallback = Callable[..., Any]


class Settler(Protocol):
    """Runs the caller's own kernel and does something beside it."""

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any], fallback: Fallback) -> Any: ...


class Missed:
    """One reason for a miss, made once and returned again and again; `count` says how often."""

    __slots__ = ("count", "settler", "why")

    def __init__(self, why: str, settler: Settler | None = None) -> None:
        self.why = why
        self.settler = settler
        self.count = 0

    def settle(self, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None, fallback: Fallback | None) -> Any:
        """The call as it would have been without us."""
        self.count += 1
        if fallback is None:
            raise NoFallback(f"{self.why}, and the call names no fallback; pass fallback=<your own kernel>")
        if self.settler is not None:
            return self.settler.run(args or (), kwargs or {}, fallback)
        return fallback(*(args or ()), **(kwargs or {}))
