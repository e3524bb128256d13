"""Workloads fit their definition: all axes and inputs are there, of the right kind, stored tensors as declared."""

from __future__ import annotations

from collections.abc import Iterator

from kernelmill.dataset.blobs import MissingBlob
from kernelmill.dataset.checks import misspelling
from kernelmill.dataset.checks.context import Case, Context
from kernelmill.dataset.checks.finding import Finding, Place, from_problems
from kernelmill.trace_schema import Definition, SafetensorsInput, ScalarInput, TensorSpec, Workload
from kernelmill.trace_schema.errors import DatasetError


def check(context: Context) -> Iterator[Finding]:
    seen: dict[tuple[str, str], Place] = {}
    for place, name, workload in context.workloads:
        yield from misspelling.check(place, workload, "$.workload")
        first = seen.setdefault((name, workload.uuid), place)
        if first is not place:
            message = f"the uuid {workload.uuid!r} stands in {first.file}:{first.line} already"
            yield place.error("$.workload.uuid", message, "give this workload a new one")
        if name not in context.by_name:
            yield place.error("$.definition", f"there is no definition {name!r}", "add it, or delete the line")
            continue
        yield from _names(place, context.by_name[name], workload)
    for case in context.cases():
        yield from _blobs(context, case)
    yield from from_problems(context.dataset.problems(), "workloads")


def _names(place: Place, definition: Definition, workload: Workload) -> Iterator[Finding]:
    try:
        definition.resolve_axes(workload.axes)
    except DatasetError as error:
        yield place.error("$.workload.axes", str(error), "correct the axes")
    for name in workload.inputs.keys() - definition.inputs.keys():
        yield place.error(f"$.workload.inputs.{name}", f"{definition.name} has no such input", "delete or rename it")
    for name, spec in definition.inputs.items():
        given = workload.inputs.get(name)
        path = f"$.workload.inputs.{name}"
        if given is None and not spec.optional:
            yield place.error(path, "the input is missing", "say where it comes from")
        elif isinstance(given, SafetensorsInput) and spec.shape is None:
            yield place.error(path, "a Python scalar is needed, not a stored tensor", 'write {"type": "scalar", ...}')
        elif isinstance(given, ScalarInput):
            yield from _scalar(place, path, spec, given)


def _scalar(place: Place, path: str, spec: TensorSpec, given: ScalarInput) -> Iterator[Finding]:
    if spec.shape is not None:
        yield place.error(path, "a tensor is needed, not a scalar", "make it random or store it")
    elif isinstance(given.value, float) and not spec.dtype.is_float:
        yield place.warning(f"{path}.value", f"{given.value!r} is no {spec.dtype.value}", "write a whole number")


def _blobs(context: Context, case: Case) -> Iterator[Finding]:
    unreadable: set[str] = set()
    for name, given in case.workload.inputs.items():
        spec = case.definition.inputs.get(name)
        if not isinstance(given, SafetensorsInput) or spec is None or spec.shape is None or given.path in unreadable:
            continue
        path, shape = f"$.workload.inputs.{name}", case.definition.shape(name, case.axes)
        try:
            stored = context.describe(given)
        except DatasetError as error:
            unreadable.add(given.path)
            missing = isinstance(error, MissingBlob)
            yield case.place.warning(path, str(error), strict=True) if missing else case.place.error(path, str(error))
            continue
        if (found := stored.get(given.tensor_key)) is None:
            message = f"{given.path} holds no tensor {given.tensor_key!r} (it holds {', '.join(sorted(stored))})"
            yield case.place.error(f"{path}.tensor_key", message, "correct the key")
        elif found != (spec.dtype, shape):
            message = f"the stored tensor is {_shown(found.dtype, found.shape)}, not {_shown(spec.dtype.value, shape)}"
            yield case.place.error(path, message, "correct the axes or store the right tensor")


def _shown(dtype: str, shape: tuple[int, ...] | None) -> str:
    return f"{dtype}{list(shape or ())}"
