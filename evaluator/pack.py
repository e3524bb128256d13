"""Sources in a folder and a Solution in a file: two forms of the same thing. Sub-directories are kept."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from kernelmill.trace_schema import Solution
from kernelmill.trace_schema.errors import SubmissionError

META = "solution.json"
"""In the folder: everything of the Solution but its sources."""
SKIPPED = ("__pycache__", ".git", ".venv")
MAX_BYTES = 8 << 20


def pack(folder: Path) -> Solution:
    """Raises SubmissionError with the field at fault."""
    meta = folder / META
    if not meta.is_file():
        raise SubmissionError(f"{folder} has no {META}; write one with name, definition, author and spec")
    try:
        fields = json.loads(meta.read_text(encoding="utf-8"))
        return Solution.model_validate({**fields, "sources": _sources(folder)})
    except (ValueError, TypeError) as error:
        raise SubmissionError(f"{meta}: {_short(error)}") from error


def _sources(folder: Path) -> list[dict[str, str]]:
    found, total = [], 0
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder)
        if path == folder / META or any(part in SKIPPED for part in inner.parts) or not path.is_file():
            continue
        if path.is_symlink():
            raise SubmissionError(f"{path} is a link; put the file itself there")
        total += path.stat().st_size
        if total > MAX_BYTES:
            raise SubmissionError(f"{folder} holds more than {MAX_BYTES >> 20} MiB of sources")
        found.append({"path": inner.as_posix(), "content": _text(path)})
    return found


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise SubmissionError(f"{path} is not UTF-8 text ({error}); a solution holds sources only") from error


def read_solution(file: Path) -> Solution:
    """Raises SubmissionError with the field at fault."""
    try:
        return Solution.model_validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        raise SubmissionError(f"{file}: {_short(error)}") from error


def unpack(file: Path, parent: Path) -> Path:
    """Write a Solution's sources and its `solution.json` below a new folder of `parent`; the folder."""
    solution = read_solution(file)
    folder = parent / "".join(c if c.isalnum() or c in "-_." else "_" for c in solution.name).lstrip(".")
    if folder.exists():
        raise SubmissionError(f"{folder} exists already; remove it or unpack elsewhere")
    for source in solution.sources:
        path = folder / source.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.content.encode("utf-8"))
    fields = json.loads(solution.model_dump_json(exclude_unset=True))
    del fields["sources"]
    (folder / META).write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")
    return folder


def _short(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)
