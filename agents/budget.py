"""What a run may spend: reserved before, settled after, so that a limit is never passed by a call already made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Self

from pydantic import Field, ValidationError

from kernelmill.agents.outcome import Frozen
from kernelmill.trace_schema.errors import KernelMillError

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "k": 1e3, "": 1.0}
ALIASES = {"wall": "wall_s", "device": "device_s", "time": "wall_s"}


class UsageError(KernelMillError):
    """Something was asked for that there is not; the text names it and what there is."""


class Exhausted(KernelMillError):
    """A limit leaves no room for the next step. `limit` names it."""

    def __init__(self, limit: str, used: float, allowed: float) -> None:
        super().__init__(f"the budget of {limit} is spent: {used:g} of {allowed:g}; allow more with --budget {limit}=N")
        self.limit = limit


class Limits(Frozen):
    """None: no limit. Times in seconds, money in US dollars, tokens in and out together."""

    evaluations: Annotated[int | None, Field(ge=0)] = None
    device_s: Annotated[float | None, Field(ge=0)] = None
    model_calls: Annotated[int | None, Field(ge=0)] = None
    tokens: Annotated[int | None, Field(ge=0)] = None
    money: Annotated[float | None, Field(ge=0)] = None
    wall_s: Annotated[float | None, Field(ge=0)] = None
    format_errors: Annotated[int | None, Field(ge=0)] = 8
    """Replies in a row that hold no solution; each is paid for all the same."""

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Self:
        """From `name=amount`, such as `evaluations=20`, `wall=5m`, `tokens=200k`. Raises UsageError."""
        found: dict[str, float] = {}
        for text in (part for many in texts for part in many.split(",")):
            read = re.fullmatch(r"\s*(\w+)\s*=\s*([0-9.]+)\s*([smhk]?)\s*", text)
            name = ALIASES.get(read[1], read[1]) if read else ""
            if read is None or name not in cls.model_fields:
                raise UsageError(f"--budget {text!r} is not NAME=AMOUNT with a name of {', '.join(cls.model_fields)}")
            try:
                found[name] = float(read[2]) * UNITS[read[3]]
            except ValueError as error:
                raise UsageError(f"--budget {text!r}: {read[2]!r} is not a number") from error
        try:
            return cls.model_validate(found)
        except ValidationError as error:
            raise UsageError(f"--budget: {error.errors()[0]['msg']}") from error


class Budget:
    """What was spent of the limits. Each name is a field of Limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.used: dict[str, float] = dict.fromkeys(Limits.model_fields, 0.0)

    def left(self, name: str) -> float:
        """Infinite without a limit."""
        limit = getattr(self.limits, name)
        return float("inf") if limit is None else max(0.0, limit - self.used[name])

    def check(self, **amounts: float) -> None:
        """Raises Exhausted if any of these is more than what is left."""
        for name, amount in amounts.items():
            limit = getattr(self.limits, name)
            if limit is not None and self.used[name] + amount > limit * (1 + 1e-12):
                raise Exhausted(name, self.used[name], limit)

    @contextmanager
    def reserved(self, **amounts: float) -> Iterator[dict[str, float]]:
        """Holds the amounts while the step runs, then charges what the caller left in the yielded dict.

        A step that fails costs what was reserved: who cannot say what was spent spent it all.
        """
        self.check(**amounts)
        actual = dict(amounts)
        for name, amount in amounts.items():
            self.used[name] += amount
        try:
            yield actual
        finally:
            for name, amount in amounts.items():
                self.used[name] -= amount
            for name, amount in actual.items():
                self.used[name] += amount

    def sync(self, **amounts: float) -> None:
        """Set what is measured rather than spent step by step: wall time, errors in a row."""
        self.used.update(amounts)
