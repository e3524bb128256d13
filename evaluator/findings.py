"""What the traces of one definition say together on one device model, solution by solution.

It is found in two steps. A solution's share (`share_of`) rests on what was judged under its name and of its source, and
on nothing of the others; `Findings.of` joins the shares. So when a trace comes in, one share is made anew, and the
others can be kept as JSON. `record` has the rules inside a share.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Self

from pydantic_core import from_json

from kernelmill.evaluator.admission import Admission, Ignored, Judged, Listing, moment, read
from kernelmill.evaluator.conditions import Conditions
from kernelmill.evaluator.record import Record, record_of
from kernelmill.trace_schema import Definition, InternalError, Trace, Workload

HIDDEN = "hidden"
"""The split of the operator's own workloads: a gate and never a term of the score, so that anyone can recompute it."""
SHARE_FORMAT = 1
"""To be raised when the same traces would make another share, or one that is written otherwise."""

_Reading = tuple[Trace, Judged | None]


@dataclass(frozen=True, slots=True)
class Share:
    """What one solution brings to a board; `record` is None where nothing counts.

    `baseline` is what it was last judged against: when, by which judge, its name.
    """

    solution: str
    record: Record | None = None
    ignored: Mapping[Ignored, int] = field(default_factory=dict)
    conditions: Conditions = field(default_factory=Conditions)
    baseline: tuple[str, int, str] | None = None

    def to_json(self) -> str:
        """One compact line of standard JSON."""
        record = self.record and self.record.as_list()
        ignored = [[str(reason), count] for reason, count in self.ignored.items()]
        values = [SHARE_FORMAT, self.solution, record, ignored, self.conditions.as_list(), self.baseline]
        return json.dumps(values, allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises InternalError for another format than this version's: such a share must be made anew of its traces."""
        made, *values = from_json(text)
        if made != SHARE_FORMAT:
            raise InternalError(f"a share in format {made!r}, where {SHARE_FORMAT} is read: make it anew of its traces")
        solution, record, ignored, conditions, baseline = values
        return cls(
            solution,
            record and Record.from_list(record),
            {Ignored(reason): count for reason, count in ignored},
            Conditions.from_list(conditions),
            baseline and tuple(baseline),
        )


@dataclass(frozen=True, slots=True)
class Findings:
    """All that a score or a choice rests on.

    `baseline` names what the ratios are against; None where nothing was timed. `baseline_ms` has one time per workload
    for all, the median over the sittings of solutions that aren't barred: so every solution meets the same weights, and
    a workload has a time for those who failed it, too. `records` is by name, sorted.
    """

    public: tuple[Workload, ...]
    hidden: tuple[Workload, ...]
    records: Mapping[str, Record]
    ignored: Mapping[Ignored, int]
    conditions: Conditions
    baseline: str | None
    baseline_ms: Mapping[str, float]

    @classmethod
    def of(cls, workloads: Iterable[Workload], shares: Iterable[Share]) -> Self:
        """Joins shares in any order, one a solution, all made for these workloads."""
        workloads, shares = tuple(workloads), sorted(shares, key=lambda share: share.solution)
        records = {share.solution: share.record for share in shares if share.record}
        ignored = Counter[Ignored]()
        for share in shares:
            ignored.update(share.ignored)
        latest = max((share.baseline for share in shares if share.baseline), key=_in_time, default=None)
        return cls(
            public=tuple(workload for workload in workloads if workload.split != HIDDEN),
            hidden=tuple(workload for workload in workloads if workload.split == HIDDEN),
            records=records,
            ignored={reason: ignored[reason] for reason in Ignored if ignored[reason]},
            conditions=Conditions.merged([share.conditions for share in shares]),
            baseline=latest and latest[-1],
            baseline_ms=_baseline_ms(records.values()),
        )


def gather(
    definition: Definition,
    workloads: Iterable[Workload],
    traces: Iterable[Trace],
    *,
    device_model: str,
    listings: Mapping[str, Listing] | None = None,
    accept_unsandboxed: bool = False,
) -> Findings:
    """Reads traces of any definition, device and age in any order; `listings` and the flag are `Admission.of`'s."""
    workloads = tuple(workloads)
    ours = (trace for trace in traces if trace.definition == definition.name and not trace.is_workload)
    readings = [(trace, read(trace)) for trace in ours]
    admission = Admission.of(
        definition,
        workloads,
        device_model=device_model,
        listings=listings,
        judged=[judged for _, judged in readings if judged],
        accept_unsandboxed=accept_unsandboxed,
    )
    by_name, by_source = defaultdict[str, list[_Reading]](list), defaultdict[str | None, list[_Reading]](list)
    for trace, judged in readings:
        by_name[trace.solution or ""].append((trace, judged))
        if judged and judged.subject.solution_hash:
            by_source[judged.subject.solution_hash].append((trace, judged))
    shares = []
    for name, own in by_name.items():
        same = by_source.get(admission.solution_hashes.get(name), [])
        shares.append(_share(name, [*own, *(each for each in same if each[0].solution != name)], admission))
    return Findings.of(workloads, shares)


def share_of(solution: str, traces: Iterable[Trace], admission: Admission) -> Share:
    """The share of the solution of that name.

    `traces` are those of the definition that bear on it, of any device and age: all under its name, and all of its
    source under other names, since a source that was caught cheating is barred under each of them. `admission` must
    know its listing and its baselines'.
    """
    return _share(solution, [(trace, read(trace)) for trace in traces], admission)


def _share(solution: str, readings: Sequence[_Reading], admission: Admission) -> Share:
    counted, ignored = list[Judged](), Counter[Ignored]()
    for trace, judged in readings:
        if (trace.solution or "") == solution:
            reason = admission.refusal(judged) if judged else admission.refusal_unread(trace)
            if reason:
                ignored[reason] += 1
            elif judged:
                counted.append(judged)
    if not counted:
        return Share(solution, ignored=dict(ignored))
    record = record_of(solution, counted, [judged for _, judged in readings if judged and admission.trusts(judged)])
    ignored[Ignored.SUPERSEDED] = len(counted) - record.traces
    baselines = [
        (judged.evaluation.timestamp, judged.judge, stats.baseline)
        for judged in counted
        if (stats := judged.evaluation.statistics) and stats.baseline
    ]
    return Share(solution, record, dict(+ignored), Conditions.of(counted), max(baselines, key=_in_time, default=None))


def _in_time(baseline: tuple[str, int, str]) -> tuple[float, int, str]:
    timestamp, judge, name = baseline
    return moment(timestamp), judge, name


def _baseline_ms(records: Iterable[Record]) -> dict[str, float]:
    times = defaultdict[str, list[float]](list)
    for record in records:
        if not record.barred:
            for uuid, finding in record.findings.items():
                if finding.baseline_ms is not None:
                    times[uuid].append(finding.baseline_ms)
    return {uuid: median(values) for uuid, values in times.items()}
