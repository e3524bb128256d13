"""From the bytes of a file to the rows of the index, with cheap checks of what is indexed.

Documents are checked against their whole schema here, trace lines when they are read: there may be 100,000 of them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple

from pydantic import ValidationError
from pydantic_core import from_json

from kernelmill.dataset.lfs import POINTER_START, pull_command
from kernelmill.dataset.problems import Malformed, Problem, from_validation, shown
from kernelmill.trace_schema import Definition, Solution, Status, Verdict

_BATCH = 5000
_STATUSES = frozenset(status.value for status in Status)
_VERDICTS = frozenset(verdict.value for verdict in Verdict) - {Verdict.HARNESS_ERROR.value}  # an event, never stored


class Row(NamedTuple):
    """One trace line. A line of a workload file has no verdict."""

    file: int
    offset: int
    length: int
    line: int
    definition: str
    uuid: str
    axes: str
    solution: str | None
    status: str | None
    verdict: str | None
    device: str | None
    ratio: float | None
    latency_ms: float | None


class Document(NamedTuple):
    """A definition (then `definition` is its own name and there is no author) or a solution."""

    name: str
    definition: str
    op_type: str | None
    author: str | None


@dataclass(slots=True)
class Progress:
    """How far a file of lines has been read: up to its last line that ended in a newline."""

    end: int = 0
    lines: int = 0
    digest: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=16))
    """Over the bytes up to `end`."""


def axes_key(axes: dict[str, Any]) -> str:
    """One text for equal axes. Malformed where a size is no whole number."""
    for name, size in axes.items():
        if type(size) is not int and not (type(size) is float and size.is_integer()):
            raise Malformed(f"$.workload.axes.{name}", f"a whole number is needed, not {shown(size)}", "correct it")
    return ",".join(f"{name}={int(size)}" for name, size in sorted(axes.items()))


def read_document(path: str, data: bytes) -> Document | list[Problem]:
    """The document at `path`, checked against its whole schema."""
    if data.startswith(POINTER_START):
        return [Problem(path, None, "$", "it is a Git LFS pointer, not the file", f"run `{pull_command(path)}`")]
    try:
        if path.startswith("definitions/"):
            definition = Definition.model_validate_json(data)
            return Document(definition.name, definition.name, definition.op_type, None)
        solution = Solution.model_validate_json(data)
        return Document(solution.name, solution.definition, None, solution.author)
    except ValidationError as error:
        return list(from_validation(error, path, None))


def read_lines(
    stream: BinaryIO, size: int, progress: Progress, file: int, path: str, problems: list[Problem]
) -> Iterator[list[Row]]:
    """Batches of rows from `progress.end` up to byte `size`; moves `progress` on. Bad lines go to `problems`."""
    stream.seek(offset := progress.end)
    line, batch, in_workloads = progress.lines, [], path.startswith("workloads/")
    while offset < size and (raw := stream.readline(size - offset)):
        line += 1
        try:
            if text := raw.strip():
                batch.append(Row(file, offset, len(raw), line, *_fields(text, in_workloads)))
        except Malformed as error:
            problems.append(_problem(path, line, error, cut_short=not raw.endswith(b"\n")))
        offset += len(raw)
        if raw.endswith(b"\n"):
            progress.digest.update(raw)
            progress.end, progress.lines = offset, line
        if len(batch) == _BATCH:
            yield batch
            batch = []
        if raw.startswith(POINTER_START):
            break
    yield batch


def _problem(path: str, line: int, error: Malformed, *, cut_short: bool) -> Problem:
    if cut_short and error.reason.startswith("not valid JSON"):
        advice = "its writer was interrupted; the next append sets it aside, or delete it"
        return Problem(path, line, "$", "the last line is cut short", advice)
    advice = error.advice.replace("FILE", path)
    return Problem(path, line, error.path, error.reason, advice)


def _fields(text: bytes, in_workloads: bool) -> tuple[Any, ...]:
    try:
        record = from_json(text, cache_strings="keys")
    except ValueError as error:
        if text.startswith(POINTER_START):
            raise Malformed("$", "it is a Git LFS pointer, not the file", f"run `{pull_command('FILE')}`") from None
        raise Malformed("$", f"not valid JSON: {error}", "correct or delete the line") from None
    if type(record) is not dict:
        raise Malformed("$", f"a trace object is needed, not {shown(record)}", "correct or delete the line")
    definition, workload = _text(record, "$", "definition"), _object(record, "$", "workload")
    uuid, axes = _text(workload, "$.workload", "uuid"), axes_key(_object(workload, "$.workload", "axes"))
    solution, evaluation = record.get("solution"), record.get("evaluation")
    if in_workloads:
        if solution or evaluation:
            raise Malformed("$", "an evaluated trace stands in a workload file", "move the line to a file of traces/")
        return definition, uuid, axes, None, None, None, None, None, None
    if not solution or not evaluation:
        path = "$.evaluation" if solution else "$.solution"
        raise Malformed(path, "every line of a trace file needs both", "add it, or move the line to workloads/")
    return definition, uuid, axes, _text(record, "$", "solution"), *_outcome(_object(record, "$", "evaluation"))


def _outcome(evaluation: dict[str, Any]) -> tuple[str, str, str, float | None, float | None]:
    """Status, verdict, device model, ratio and latency in ms."""
    status = evaluation.get("status")
    if status not in _STATUSES:
        raise Malformed("$.evaluation.status", f"{shown(status)} is no status", f"write one of {', '.join(Status)}")
    verdict = evaluation.get("verdict") or status
    if verdict not in _VERDICTS:
        raise Malformed(
            "$.evaluation.verdict",
            f"{shown(verdict)} is no verdict of a trace",
            f"write one of {', '.join(sorted(_VERDICTS))}",
        )
    environment = _object(evaluation, "$.evaluation", "environment")
    device = environment.get("device")
    model = (device.get("name") if type(device) is dict else None) or _text(
        environment, "$.evaluation.environment", "hardware"
    )
    statistics, performance = evaluation.get("statistics"), evaluation.get("performance")
    ratio = _positive(statistics.get("ratio")) if type(statistics) is dict else None
    latency_ms = _positive(performance.get("latency_ms")) if type(performance) is dict else None
    return status, verdict, model, ratio, latency_ms


def _text(record: dict[str, Any], where: str, key: str) -> str:
    value = record.get(key)
    if type(value) is not str or not value:
        raise Malformed(f"{where}.{key}", f"text is needed, not {shown(value)}", "correct it")
    return value


def _object(record: dict[str, Any], where: str, key: str) -> dict[str, Any]:
    value = record.get(key)
    if type(value) is not dict:
        raise Malformed(f"{where}.{key}", f"an object is needed, not {shown(value)}", "correct it")
    return value


def _positive(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and 0 < value < math.inf and value < 1 << 1000 else None
