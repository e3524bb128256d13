"""Readers of recorded traffic. Licences and origins: dataset/data/DATA_LICENSES.md."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from kernelmill.trace_schema.errors import DatasetError


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a served model: when it came (seconds from the trace's start) and its lengths in tokens."""

    arrival_s: float
    prompt: int
    output: int


@dataclass(frozen=True, slots=True)
class Capture:
    """The KV lengths, in tokens, of every sequence in one decode step of a running engine."""

    name: str
    lengths: tuple[int, ...]


def azure_requests(path: Path) -> list[Request]:
    """The rows of an Azure LLM inference trace (columns TIMESTAMP, ContextTokens, GeneratedTokens), by arrival."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows or "ContextTokens" not in rows[0]:
        raise DatasetError(f"{path}: not an Azure LLM inference trace; its first line must name ContextTokens")
    # Seven decimals of a second: datetime takes six.
    times = [datetime.fromisoformat(row["TIMESTAMP"][:26]) for row in rows]
    start = min(times)
    requests = [
        Request((time - start).total_seconds(), int(row["ContextTokens"]), int(row["GeneratedTokens"]))
        for time, row in zip(times, rows, strict=True)
    ]
    return sorted(requests, key=lambda request: request.arrival_s)


def sglang_captures(folder: Path) -> list[Capture]:
    """The decode steps captured in `folder` (`decode_paged_*.safetensors` with `kv_indptr`), fewest tokens first."""
    from safetensors.numpy import load_file

    files = sorted(folder.rglob("decode_paged_*.safetensors"))
    if not files:
        raise DatasetError(f"{folder}: no decode_paged_*.safetensors in it")
    captures = []
    for file in files:
        indptr = load_file(file)["kv_indptr"].tolist()
        captures.append(Capture(file.stem, tuple(b - a for a, b in pairwise(indptr))))
    return sorted(captures, key=lambda capture: sum(capture.lengths))
