"""What is wrong with a dataset, one place at a time. A problem never hides the lines and files around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError

_MOST_PER_RECORD = 5
_LONGEST_VALUE = 80


@dataclass(frozen=True, slots=True)
class Problem:
    file: str
    """Relative to the dataset's root, with forward slashes."""
    line: int | None
    """Counted from 1; None where the whole file is meant."""
    path: str
    """JSON path of the value, `$` for the whole record."""
    reason: str
    advice: str = ""
    """What to do about it."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.path}: {self.reason}" + (f"; {self.advice}" if self.advice else "")

    @property
    def place(self) -> tuple[str, int, str]:
        return self.file, self.line or 0, self.path


class Malformed(ValueError):
    """A record that cannot be indexed: the JSON path, the reason and the advice of the Problem it becomes."""

    def __init__(self, path: str, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.path, self.reason, self.advice = path, reason, advice


def json_path(keys: tuple[int | str, ...]) -> str:
    return "$" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)


def shown(value: Any) -> str:
    """A value as an error message prints it: never longer than a line."""
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


def from_validation(error: ValidationError, file: str, line: int | None) -> Iterator[Problem]:
    """At most five problems of one record: the later ones mostly follow from the first."""
    for detail in error.errors(include_url=False)[:_MOST_PER_RECORD]:
        advice = "add it" if detail["type"] == "missing" else "correct the value"
        reason = detail["msg"].removeprefix("Value error, ")
        if detail["type"] != "missing":
            reason += f" (found {shown(detail['input'])})"
        yield Problem(file, line, json_path(detail["loc"]), reason, advice)
