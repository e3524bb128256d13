"""What a check reports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from kernelmill.dataset.problems import Problem


class Severity(StrEnum):
    """An error makes `validate` fail; a warning asks for a look; info is for whoever is curious."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found by one check; `check` is filled in by whoever runs it."""

    severity: Severity
    file: str
    line: int | None
    path: str
    """JSON path of the value, `$` for the whole record or file."""
    message: str
    advice: str = ""
    strict: bool = False
    """Whether a strict validation takes this warning for an error."""
    check: str = ""

    def __str__(self) -> str:
        problem = Problem(self.file, self.line, self.path, self.message, self.advice)
        return f"{self.severity:7} {self.check}: {problem}"

    def as_json(self) -> dict[str, Any]:
        record = asdict(self)
        del record["strict"]
        return {"check": record.pop("check"), **record}


@dataclass(frozen=True, slots=True)
class Place:
    """A record's file and line, from which findings about it are made."""

    file: str
    line: int | None = None

    def error(self, path: str, message: str, advice: str = "") -> Finding:
        return Finding(Severity.ERROR, self.file, self.line, path, message, advice)

    def warning(self, path: str, message: str, advice: str = "", *, strict: bool = False) -> Finding:
        return Finding(Severity.WARNING, self.file, self.line, path, message, advice, strict)

    def info(self, path: str, message: str, advice: str = "") -> Finding:
        return Finding(Severity.INFO, self.file, self.line, path, message, advice)


def from_problems(problems: list[Problem], tree: str) -> Iterator[Finding]:
    """The dataset's own problems with the files of one tree, as errors."""
    for problem in problems:
        if problem.file == tree or problem.file.startswith(f"{tree}/"):
            yield Place(problem.file, problem.line).error(problem.path, problem.reason, problem.advice)
