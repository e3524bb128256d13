"""Build the table: from a dataset's traces, the solutions that this machine would gain by, size by size.

Only the findings of `evaluator.selection` count: current hashes, this device model, passes, the lower bound of the
paired ratio; nothing that a judge has caught. The incumbent is the engine's own kernel (a solution whose author is the
engine's name) where one was judged, else the baseline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kernelmill.apply.features import Feature, features_of
from kernelmill.apply.host import Host
from kernelmill.apply.ranges import Sizes, spans
from kernelmill.apply.table import Entry, Note, Range, Table
from kernelmill.dataset.paths import segment
from kernelmill.evaluator import machine
from kernelmill.evaluator.admission import BASELINE_AUTHOR, listed
from kernelmill.evaluator.findings import Findings, gather
from kernelmill.evaluator.record import Record
from kernelmill.evaluator.run import is_for
from kernelmill.evaluator.selection import barred, may_replace
from kernelmill.evaluator.statistics import ONE, Ratio
from kernelmill.trace_schema import Definition, Solution, Trace

if TYPE_CHECKING:
    from kernelmill.dataset import Dataset


@dataclass(frozen=True, slots=True)
class Wish:
    """What may come into a table."""

    engine: str = ""
    margin: float = 1.0
    """The lower bound of a ratio must exceed it."""
    libs: Literal["same", "any"] = "same"
    definitions: tuple[str, ...] = ()


@dataclass(slots=True)
class Made:
    """A table, and the records that it names."""

    table: Table
    definitions: dict[str, Definition] = field(default_factory=dict)
    solutions: dict[str, Solution] = field(default_factory=dict)

    def write(self, home: Path) -> None:
        from kernelmill.apply import table

        for name, definition in self.definitions.items():
            table.write(home / "definitions" / f"{segment(name, 'definition name')}.json", definition)
        for digest, solution in self.solutions.items():
            table.write(home / "solutions" / f"{digest}.json", solution)
        table.write(home / table.TABLE, self.table)


def build(dataset: Dataset, host: Host, wish: Wish) -> Made:
    """Reads every trace of the wanted definitions."""
    made, entries, notes = Made(empty_table(host, wish, str(dataset.root))), list[Entry](), list[Note]()
    for name in wish.definitions or tuple(dataset.definitions):
        definition = dataset.definition(name)
        entry = _entry(dataset, definition, host, wish, notes)
        if entry is None:
            continue
        entries.append(entry)
        made.definitions[name] = definition
        wanted = {found.solution_hash for found in entry.ranges}
        made.solutions |= {
            solution.hash(): solution for solution in dataset.solutions(definition) if solution.hash() in wanted
        }
    made.table = made.table.model_copy(update={"entries": tuple(entries), "notes": tuple(notes)})
    return made


def empty_table(host: Host, wish: Wish, source: str) -> Table:
    return Table(
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        source=source,
        device_model=host.model,
        arch=host.arch,
        libs=wish.libs,
        fingerprint=host.fingerprint,
        margin=wish.margin,
        entries=(),
    )


def _entry(dataset: Dataset, definition: Definition, host: Host, wish: Wish, notes: list[Note]) -> Entry | None:
    solutions = {solution.name: solution for solution in dataset.solutions(definition)}
    traces = list(_admitted(dataset.traces(definition), host, wish, notes, definition.name))
    found = gather(
        definition,
        dataset.workloads(definition),
        traces,
        device_model=host.model,
        listings=listed({name: one for name, one in solutions.items() if _counts(one, host)}),
    )
    features = features_of(definition)
    incumbent = next((one.name for one in solutions.values() if wish.engine and one.author == wish.engine), None)
    ranges = []
    charges = barred(found)
    for name, record in found.records.items():
        why = charges.get(name)
        own = [] if why else list(_ranges(found, record, found.records.get(incumbent or ""), features, wish))
        ranges += own
        if not own and solutions[name].author != BASELINE_AUTHOR:
            notes.append(Note(definition=definition.name, what=name, why=why or _slow(record, wish)))
    if not found.records:
        notes.append(Note(definition=definition.name, what="*", why=f"no trace that counts on {host.model}"))
    if not ranges:
        return None
    return Entry(
        definition=definition.name,
        definition_hash=definition.hash(),
        op_type=definition.op_type,
        features=tuple(str(feature) for feature in features),
        incumbent=(incumbent if incumbent in found.records else found.baseline) or "",
        ranges=tuple(sorted(ranges, key=lambda one: (-one.lower, one.solution, one.lo))),
    )


def _counts(solution: Solution, host: Host) -> bool:
    """A definition has one baseline a kind of device; the other kinds' would count as changed baselines."""
    return solution.author != BASELINE_AUTHOR or is_for(solution, host.kind)


def _admitted(traces: Iterable[Trace], host: Host, wish: Wish, notes: list[Note], definition: str) -> Iterator[Trace]:
    """Those of this architecture and, where asked for, of these libraries."""
    left = 0
    for trace in traces:
        environment = trace.evaluation.environment if trace.evaluation else None
        arch = environment.device.arch if environment and environment.device else None
        same = environment is not None and machine.fingerprint(environment.libs or {}) == host.fingerprint
        if arch not in (None, host.arch) or (wish.libs == "same" and not same):
            left += 1
        else:
            yield trace
    if left:
        why = f"{left} traces were made with another architecture or other library versions; --libs any takes them"
        notes.append(Note(definition=definition, what="*", why=why))


def _ranges(
    found: Findings, record: Record, engine: Record | None, features: tuple[Feature, ...], wish: Wish
) -> Iterator[Range]:
    ratios: dict[Sizes, Ratio | None] = {}
    for workload in found.public:
        finding = record.findings.get(workload.uuid)
        if finding is None:
            continue
        own = engine.findings.get(workload.uuid) if engine else None
        ratio = _against(finding.ratio, own.ratio if own and own.ratio else ONE)
        serves = may_replace(finding) and ratio is not None and ratio.lo > wish.margin
        sizes = tuple(feature.of(workload.axes) for feature in features)
        worst = ratios.get(sizes, ratio)
        ratios[sizes] = min((ratio, worst), key=lambda one: one.lo) if serves and ratio and worst else None
    for span in spans({sizes: ratio is not None for sizes, ratio in ratios.items()}):
        inside = [ratio for point in span.points if (ratio := ratios[point])]
        yield Range(
            solution=record.solution,
            solution_hash=record.solution_hash,
            lo=span.lo,
            hi=span.hi,
            points=span.points,
            lower=min(ratio.lo for ratio in inside),
            speedup=min(ratio.point for ratio in inside),
        )


def _against(ratio: Ratio | None, incumbent: Ratio) -> Ratio | None:
    """Both are ratios to the same baseline; the bounds take the worse end of each."""
    if ratio is None:
        return None
    return Ratio(ratio.point / incumbent.point, ratio.lo / incumbent.hi, ratio.hi / incumbent.lo, ratio.kind)


def _slow(record: Record, wish: Wish) -> str:
    passed = [finding for finding in record.findings.values() if finding.passed]
    if not passed:
        return f"passed none of {len(record.findings)} workloads"
    best = max((finding.ratio.lo for finding in passed if finding.ratio), default=0.0)
    return f"surely faster than the incumbent nowhere: its best lower bound is {best:.2f}x, {wish.margin:g}x is asked"
