"""Readers of recorded traffic. Licences and origins: dataset/data/DATA_LICENSES.md."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from kernelmill.dataset.derive.request import Request, Span
from kernelmill.trace_schema.errors import DatasetError

MOONCAKE_BLOCK = 512
"""Tokens that one hash id stands for."""
SERVEGEN_REQUESTS = 4000


def azure(path: Path) -> list[Request]:
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


def mooncake(path: Path) -> list[Request]:
    """A Mooncake trace: each hash id names 512 tokens of prompt together with all before them."""
    found = []
    for row in _lines(path, "hash_ids"):
        ends = (MOONCAKE_BLOCK * (at + 1) for at in range(len(row["hash_ids"])))
        prefix = tuple(zip(ends, row["hash_ids"], strict=True))
        found.append(Request(row["timestamp"] / 1000, row["input_length"], max(1, row["output_length"]), prefix))
    return sorted(found, key=lambda request: request.arrival_s)


def agentic(path: Path) -> list[Request]:
    """Coding-agent sessions: a turn waits for the one before it and for the time to think.

    Sessions start one after the other, a second apart. Those that were given equally many tokens of tools are taken
    to have been given the same tools, which come first in the prompt.
    """
    found: list[Request] = []
    for start, row in enumerate(_lines(path, "requests")):
        if row["requests"]:
            _session(found, row, float(start))
    return found


def _session(found: list[Request], row: dict[str, Any], start_s: float) -> None:
    columns = {name: at for at, name in enumerate(row["cols"])}
    block = row["block_size"]
    tools = row["tool_tokens"] // block * block
    prefix: tuple[Span, ...] = ((tools, f"tools {row['tool_tokens']}"),) if tools else ()
    before = None
    for turn, values in enumerate(row["requests"]):
        prompt, hit = values[columns["input_tokens"]], values[columns["prefix_hit_tokens_vs_prev"]]
        if turn:
            prefix = tuple((min(end, hit), content) for end, content in prefix if min(end, hit) > 0)
            prefix = tuple(span for at, span in enumerate(prefix) if at == 0 or span[0] > prefix[at - 1][0])
        if prefix and prefix[-1][0] > prompt:
            prefix = ()
        prefix = (*prefix, (prompt, f"{row['id']} {turn}"))
        arrival = start_s if before is None else values[columns["think_time_s"]] or 0.0
        output = max(1, values[columns["output_tokens"]])
        found.append(Request(arrival, prompt, output, prefix, before))
        before = len(found) - 1


def servegen(path: Path) -> list[Request]:
    """Requests drawn from ServeGen's histograms of prompt and output lengths, one a second with exponential gaps."""
    import numpy as np

    raw = json.loads(path.read_text())
    if not {"input_tokens", "output_tokens"} <= raw.keys():
        raise DatasetError(f"{path}: no ServeGen histogram; it must have input_tokens and output_tokens")
    draws = np.random.default_rng(0)
    lengths = []
    for name in ("input_tokens", "output_tokens"):
        values, counts = np.array(raw[name], dtype=float).T
        lengths.append(draws.choice(values.astype(int), SERVEGEN_REQUESTS, p=counts / counts.sum()))
    arrivals = np.cumsum(draws.exponential(1.0, SERVEGEN_REQUESTS))
    return [
        Request(round(float(when), 6), max(1, int(prompt)), max(1, int(output)))
        for when, prompt, output in zip(arrivals, *lengths, strict=True)
    ]


def _lines(path: Path, needed: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        row = json.loads(line)
        if needed not in row:
            raise DatasetError(f"{path}:{number}: a line of this trace must have {needed}")
        yield row


def at_rate(requests: Sequence[Request], per_second: float, count: int) -> list[Request]:
    """The first `count` requests, their arrivals stretched to so many a second on average; later turns keep theirs."""
    chosen = requests[:count]
    first = [one.arrival_s for one in chosen if one.after is None]
    start, span = min(first), max(first) - min(first)
    factor = len(first) / per_second / span if span > 0 else 0.0
    return [
        one if one.after is not None else replace(one, arrival_s=(one.arrival_s - start) * factor) for one in chosen
    ]
