"""Workloads of one definition that differ in nothing, or in nothing but what is kept the same on purpose."""

from __future__ import annotations

from collections.abc import Iterator

from kernelmill.dataset.checks.context import Case
from kernelmill.dataset.checks.finding import Finding

_BATCH_AXES = ("batch_size", "num_seqs", "num_tokens", "total_num_tokens", "M", "total_q", "seq_len")


def one_size(cases: list[Case]) -> Iterator[Finding]:
    axis = next((axis for axis in _BATCH_AXES if axis in cases[0].definition.var_axes), None)
    if axis is not None and len({case.axes[axis] for case in cases}) == 1:
        message = f"{axis} is {cases[0].axes[axis]} in every workload of {cases[0].definition.name}"
        is_strict = not all(case.is_recorded for case in cases)
        yield cases[0].place.warning(f"$.workload.axes.{axis}", message, "add other sizes", strict=is_strict)


def twins(cases: list[Case]) -> Iterator[Finding]:
    seen: dict[tuple[str, str], Case] = {}
    for case in cases:
        inputs = {name: spec.model_dump_json() for name, spec in sorted(case.workload.inputs.items())}
        first = seen.setdefault((str(sorted(case.axes.items())), str(inputs)), case)
        if first is not case:
            message = f"axes and inputs are those of line {first.place.line}, {first.workload.uuid}"
            yield case.place.warning("$.workload", message, "delete it, and add its weight to the other", strict=True)
