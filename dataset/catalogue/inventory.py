"""The inventory: what a dataset holds of each op type, as a table for people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kernelmill.dataset.store import Dataset

BEGIN, END = "<!-- inventory: begin -->", "<!-- inventory: end -->"
HEADER = ("op type", "definitions", "models", "workloads", "of these derived", "sizes")


@dataclass
class Row:
    """Of one op type."""

    definitions: int = 0
    workloads: int = 0
    derived: int = 0
    models: set[str] = field(default_factory=set)
    sizes: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Variable axes of all workloads."""

    def cells(self, op_type: str) -> tuple[str, ...]:
        shown = (f"{name} {min(values)} to {max(values)}" for name, values in sorted(self.sizes.items()))
        counts = (self.definitions, len(self.models), self.workloads, self.derived)
        return (op_type, *(f"{count}" for count in counts), ", ".join(shown))


def table(dataset: Dataset) -> str:
    """Markdown, one op type a line, and a line for all of them."""
    rows: dict[str, Row] = defaultdict(Row)
    for definition in dataset.definitions.values():
        for row in (rows[definition.op_type], rows["all"]):
            row.definitions += 1
            row.models |= {tag for tag in definition.tags if tag.startswith("model:")}
        for workload in dataset.workloads(definition):
            derived = workload.provenance is not None and workload.provenance.kind != "synthetic"
            for row in (rows[definition.op_type], rows["all"]):
                row.workloads += 1
                row.derived += derived
            for name, size in workload.axes.items():
                rows[definition.op_type].sizes[name].append(size)
    whole = rows.pop("all")
    lines = [row.cells(op_type) for op_type, row in sorted(rows.items())]
    return "\n".join(_markdown([*lines, whole.cells("all")])) + "\n"


def _markdown(lines: list[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(HEADER)} |"
    yield f"| {' | '.join('---' for _ in HEADER)} |"
    for cells in lines:
        yield f"| {' | '.join(cells)} |"


def refresh(document: Path, dataset: Dataset) -> str:
    """The document's text with the table between its two marks made anew. ValueError where it has no marks."""
    text = document.read_text()
    if BEGIN not in text or END not in text:
        raise ValueError(f"{document} has no lines {BEGIN} and {END} to put the inventory between")
    before, rest = text.split(BEGIN, 1)
    return f"{before}{BEGIN}\n{table(dataset)}{END}{rest.split(END, 1)[1]}"
