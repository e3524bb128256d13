"""Workloads that measure little: nothing to do, the same thing twice, one size only, or noise where values matter.

A size that never changes, or lengths that are all one, are what somebody made up, unless an engine was seen to do it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from kernelmill.dataset.checks.context import Case, Context, is_integer
from kernelmill.dataset.checks.finding import Finding
from kernelmill.dataset.checks.indexed import LENGTHS
from kernelmill.dataset.checks.indptr import is_offsets
from kernelmill.dataset.checks.sameness import one_size, twins
from kernelmill.trace_schema import RandomInput


def check(context: Context) -> Iterator[Finding]:
    by_definition = defaultdict(list)
    for case in context.cases():
        by_definition[case.definition.name].append(case)
    for cases in by_definition.values():
        yield from one_size(cases)
        yield from twins(cases)
        for case in cases:
            yield from _axes(case)
            yield from _noise(case)
            yield from _lengths(case)


def _axes(case: Case) -> Iterator[Finding]:
    warn = partial(case.place.warning, strict=True)
    for name in case.definition.var_axes:
        if case.axes[name] == 0:
            yield warn(
                f"$.workload.axes.{name}", f"the axis {name} has size 0", "delete the workload or correct the axis"
            )
    queries = case.axes.get("total_q", 0)
    pages, keys = case.axes.get("num_kv_indices"), case.axes.get("total_kv")
    most = keys if keys is not None else pages and pages * case.axes.get("page_size", 1)
    if "causal" in case.definition.name and most is not None and queries > most:
        message = f"total_q = {queries} queries share at most {most} keys: under the causal mask many attend to nothing"
        yield warn("$.workload.axes.total_q", message, "record whole sequences")


def _noise(case: Case) -> Iterator[Finding]:
    for name, spec in case.definition.inputs.items():
        given = case.workload.inputs.get(name)
        if not isinstance(given, RandomInput) or given.distribution is not None:
            continue
        path = f"$.workload.inputs.{name}"
        if spec.shape is None:
            yield case.place.warning(path, "a random scalar", "write the number that the model uses", strict=True)
        elif is_integer(spec):
            message = f"random {spec.dtype.value} values, which no serving step has"
            yield case.place.warning(path, message, "store the tensor, or name a distribution", strict=True)


def _lengths(case: Case) -> Iterator[Finding]:
    for name in case.definition.inputs:
        values = case.integers(name) if is_offsets(name) or name in LENGTHS else None
        if values is None or values.ndim != 1:
            continue
        lengths = values[1:] - values[:-1] if is_offsets(name) else values
        path = f"$.workload.inputs.{name}"
        if lengths.size and (lengths == 0).all():
            yield case.place.warning(path, "every sequence is empty", "record a step that has work", strict=True)
        elif lengths.size > 1 and (lengths == lengths[0]).all() and not (name.startswith("q") and lengths[0] == 1):
            message = f"all {lengths.size} sequences have length {lengths[0]}"
            yield case.place.warning(path, message, "record lengths as they are served", strict=not case.is_recorded)
