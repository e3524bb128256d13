"""Runs the checks over a dataset. One check a file in `checks/`; none of them raises for what it finds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

from kernelmill.dataset.checks import (
    baseline,
    constraints,
    definition,
    degenerate,
    index_bounds,
    indptr,
    layout,
    solution,
    trace,
    workload,
)
from kernelmill.dataset.checks.context import Context
from kernelmill.dataset.checks.finding import Finding, Severity
from kernelmill.dataset.store import Dataset

Check = Callable[[Context], Iterator[Finding]]
CHECKS: dict[str, Check] = {
    "layout": layout.check,
    "definition": definition.check,
    "workload": workload.check,
    "solution": solution.check,
    "trace": trace.check,
    "baseline": baseline.check,
    "constraints": constraints.check,
    "index_bounds": index_bounds.check,
    "indptr": indptr.check,
    "degenerate": degenerate.check,
}


def validate(
    dataset: Dataset,
    names: Sequence[str] | None = None,
    *,
    strict: bool = False,
    checks: Mapping[str, Check] = CHECKS,
    progress: Callable[[str], None] = lambda name: None,
) -> Iterator[Finding]:
    """Findings of the named ones of `checks`, else of all; `progress` is told each check's name as it starts.

    With `strict`, degenerate workloads and missing blobs are errors.
    """
    context = Context(dataset)
    for name in names or checks:
        progress(name)
        for found in checks[name](context):
            severity = Severity.ERROR if strict and found.strict else found.severity
            yield dataclasses.replace(found, check=name, severity=severity)
