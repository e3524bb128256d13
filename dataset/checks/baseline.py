"""Every definition has a baseline: a solution by the author "baseline", which passes wherever it was judged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kernelmill.dataset.checks.context import Context
from kernelmill.dataset.checks.finding import Finding, Place
from kernelmill.dataset.index import Query
from kernelmill.dataset.reader import Located

AUTHOR = "baseline"


def check(context: Context) -> Iterator[Finding]:
    baselines = defaultdict(list)
    for place, solution in context.solutions.values():
        if solution.author == AUTHOR:
            baselines[solution.definition].append((place, solution.name))
    uuids = defaultdict(set)
    for _, name, workload in context.workloads:
        uuids[name].add(workload.uuid)
    traces = defaultdict(list)
    for located in context.dataset.reader.traces(Query(author=AUTHOR)):
        traces[located.trace.solution].append(located)
    for place, definition in context.definitions:
        if definition.name not in baselines:
            message = f'{definition.name} has no solution by the author "{AUTHOR}"'
            yield place.warning("$", message, "add one; until then its solutions have no score")
    for name, solutions in baselines.items():
        for place, solution_name in solutions:
            yield from _outcomes(traces[solution_name])
            missing = uuids[name] - {located.trace.workload.uuid for located in traces[solution_name]}
            if traces[solution_name] and missing:
                message = (
                    f"{solution_name} was judged on {len(uuids[name]) - len(missing)} of {len(uuids[name])} workloads"
                )
                yield place.info("$", message, "evaluate it on the others")


def _outcomes(traces: list[Located]) -> Iterator[Finding]:
    for file, line, trace in traces:
        if not trace.passed:
            message = f"the baseline {trace.solution} has verdict {trace.effective_verdict}"
            yield Place(file, line).warning("$.evaluation", message, "correct the baseline or its definition")
