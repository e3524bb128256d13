"""What compute-sanitizer reports, as findings: what, in which kernel, where; the same one of many threads is one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Literal, NamedTuple

MARK = "========="
KINDS = re.compile(
    "Invalid |Misaligned |Uninitialized |Barrier error|Race reported|Potential |Host API memory access error|"
    "Malloc/Free error|Fatal |Illegal |Out-of-range|Stack overflow|Program hit |Leaked "
)
"""How a report begins."""
SEVERITY = re.compile(r"^(Error|Warning|Info): ")
PLACE = re.compile(
    r"\bat (?:(?P<kernel>\S.*?)\+(?P<offset>0x[0-9a-f]+)(?: in (?P<place>.+?:\d+))?|0x[0-9a-f]+ in (?P<old>.+?))"
    r"(?: \[\d+ hazards?\])?(?: and .*)?$"
)
FRAME = re.compile(r"Device Frame: ?(?P<kernel>.+?)\+0x")
SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)s?")
LINES = 4
"""Of each report that are kept."""


class Checker(StrEnum):
    """The tools of compute-sanitizer, in the order in which they are run."""

    MEMCHECK = "memcheck"
    """Accesses outside of allocations, or misaligned."""
    RACECHECK = "racecheck"
    """Accesses to shared memory without a barrier between them."""
    INITCHECK = "initcheck"
    """Reads of global memory that nobody wrote."""
    SYNCCHECK = "synccheck"
    """Barriers that not all of their threads reach."""


class Finding(NamedTuple):
    """One error at one place."""

    severity: Literal["error", "warning"]
    kind: str
    kernel: str
    place: str
    """File and line where the code was compiled with them (-lineinfo), else the offset in the function."""
    times: int
    """Threads, or pairs of accesses, that it was reported for."""
    lines: tuple[str, ...]
    """The first report's first lines."""


def parse(output: str) -> list[Finding]:
    """The findings in order. What the summary counts and nothing explains is a finding, too: none is lost."""
    found: dict[tuple[str, str, str, str], Finding] = {}
    for block in _blocks(output):
        finding = _finding(block)
        if finding is not None:
            key = finding[:4]
            found[key] = found[key]._replace(times=found[key].times + 1) if key in found else finding
    counted = max((int(number) for number in SUMMARY.findall(output)), default=0)
    if counted and not found:
        marked = [line for line in output.splitlines() if line.startswith(MARK)]
        return [Finding("error", f"{counted} errors of a kind unknown here", "?", "?", counted, tuple(marked[-LINES:]))]
    return list(found.values())


def _blocks(output: str) -> Iterator[list[str]]:
    """Each report's lines without their mark: a headline, and what is set in below it."""
    block: list[str] = []
    for line in output.splitlines():
        if not line.startswith(MARK):
            continue
        text = line.removeprefix(MARK).removeprefix(" ")
        if text.startswith(" ") and block:
            block.append(text.strip())
        else:
            yield block
            block = [text.strip()]
    yield block


def _finding(block: list[str]) -> Finding | None:
    if not block:
        return None
    severity = SEVERITY.match(block[0])
    headline = SEVERITY.sub("", block[0])
    if not KINDS.match(headline):
        return None
    places = [found for line in block if (found := PLACE.search(line))]
    frames = [found["kernel"] for line in block if (found := FRAME.search(line))]
    kernel, place = _where(places[0]) if places else ("?", "?")
    kind = PLACE.sub("", headline).strip().rstrip(".")
    word: Literal["error", "warning"] = "warning" if severity and severity[1] != "Error" else "error"
    return Finding(word, kind, frames[-1] if frames else kernel, place, 1, tuple(block[:LINES]))


def _where(found: re.Match[str]) -> tuple[str, str]:
    if found["old"]:
        return found["old"], "?"
    return found["kernel"], found["place"] or f"+{found['offset']}"
