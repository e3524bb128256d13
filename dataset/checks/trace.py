"""Traces load, and the definition, solution and workload that they speak of are there, as they were judged."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from kernelmill.dataset.checks import misspelling
from kernelmill.dataset.checks.context import Context
from kernelmill.dataset.checks.finding import Finding, Place, from_problems
from kernelmill.dataset.index import Query
from kernelmill.trace_schema import Trace


def check(context: Context) -> Iterator[Finding]:
    current = _Current(context)
    for file, line, trace in context.dataset.reader.traces(Query()):
        place = Place(file, line)
        yield from misspelling.check(place, trace)
        yield from _names(context, place, trace)
        yield from current.check(place, trace)
    yield from from_problems(context.dataset.problems(), "traces")


def _names(context: Context, place: Place, trace: Trace) -> Iterator[Finding]:
    if trace.definition not in context.by_name:
        yield place.error("$.definition", f"there is no definition {trace.definition!r}", "add it, or delete the line")
    found = context.solutions.get(trace.solution or "")
    if found is None:
        yield place.error("$.solution", f"there is no solution {trace.solution!r}", "add it, or delete the line")
    elif found[1].definition != trace.definition:
        message = f"{trace.solution!r} implements {found[1].definition!r}, not {trace.definition!r}"
        yield place.error("$.solution", message, "correct the definition or the solution")


class _Current:
    """What the dataset holds now, by which a trace may be out of date."""

    def __init__(self, context: Context) -> None:
        self._workloads = {(name, workload.uuid): workload for _, name, workload in context.workloads}
        self._definition_hash = cache(lambda name: context.by_name[name].hash())
        self._solution_hash = cache(lambda name: context.solutions[name][1].hash())
        self._workload_hash = cache(lambda *key: self._workloads[key].hash())
        self._context = context

    def check(self, place: Place, trace: Trace) -> Iterator[Finding]:
        key = trace.definition, trace.workload.uuid
        if trace.definition in self._context.by_name and key not in self._workloads:
            message = f"{trace.definition} has no workload {trace.workload.uuid!r} (any more)"
            yield place.warning("$.workload.uuid", message, "restore the workload, or delete the line")
        subject = trace.evaluation and trace.evaluation.subject
        if not subject:
            return
        now = {
            "definition_hash": trace.definition in self._context.by_name and self._definition_hash(trace.definition),
            "solution_hash": trace.solution in self._context.solutions and self._solution_hash(trace.solution),
            "workload_hash": key in self._workloads and self._workload_hash(*key),
        }
        for field, current in now.items():
            judged = getattr(subject, field)
            if judged and current and judged != current:
                message = f"the {field.removesuffix('_hash')} has changed since it was judged, so the trace is ignored"
                yield place.info(f"$.evaluation.subject.{field}", message, "evaluate it again")
