"""Whether a kept call can be a workload: by the very checks that `validate --strict` will make of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kernelmill.apply.tracing.sample import Sample
from kernelmill.dataset.checks import constraints, degenerate, index_bounds, indptr
from kernelmill.dataset.checks.context import Case, Context
from kernelmill.dataset.checks.finding import Place, Severity
from kernelmill.trace_schema import Definition, Workload

CHECKS = (constraints.check, index_bounds.check, indptr.check, degenerate.check)


class _Call(Case):
    """A case whose stored tensors are in memory."""

    def __init__(self, definition: Definition, workload: Workload, tensors: dict[str, Any]) -> None:
        self.place, self.definition, self.workload = Place(definition.name), definition, workload
        self.axes = definition.resolve_axes(workload.axes)
        self._tensors = tensors

    def stored(self, name: str) -> Any:
        return self._tensors.get(name)


class _Alone(Context):
    """What checks look at: one case."""

    def __init__(self, case: Case) -> None:
        self._case = case

    def cases(self) -> Iterator[Case]:
        yield self._case


def fault_of(definition: Definition, sample: Sample) -> str | None:
    """The first error, or None. The sample's tensors are in the host's memory."""
    arrays = {name: array for name, tensor in sample.tensors.items() if (array := as_array(tensor)) is not None}
    inputs: dict[str, Any] = {}
    for name in definition.inputs.keys() - sample.absent:
        if name in sample.scalars:
            inputs[name] = {"type": "scalar", "value": sample.scalars[name]}
        elif name in sample.tensors:
            inputs[name] = {"type": "safetensors", "path": "in memory", "tensor_key": name}
        else:
            inputs[name] = {"type": "random", "distribution": {"kind": "normal"}}
    raw = {"uuid": "traced", "axes": sample.axes, "inputs": inputs, "provenance": {"kind": "engine"}}
    context = _Alone(_Call(definition, Workload.model_validate(raw), arrays))
    for check in CHECKS:
        for found in check(context):
            if found.severity is Severity.ERROR or found.strict:
                return f"{found.path.rpartition('.')[2]}: {found.message}"
    return None


def as_array(tensor: Any) -> Any:
    """None where numpy lacks the type: then no check asks for values."""
    try:
        return tensor.numpy()
    except TypeError:
        return None
