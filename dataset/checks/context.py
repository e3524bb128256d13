"""What the checks look at: a dataset, with the place of every record, and each workload with the tensors it stores."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from kernelmill.dataset import blobs
from kernelmill.dataset.checks.finding import Place
from kernelmill.dataset.store import Dataset
from kernelmill.trace_schema import (
    Definition,
    DType,
    RandomInput,
    SafetensorsInput,
    ScalarInput,
    Solution,
    TensorSpec,
    Workload,
)
from kernelmill.trace_schema.errors import DatasetError


class Case:
    """A workload of a known definition whose axes resolve. Stored tensors are read when asked for."""

    def __init__(self, dataset: Dataset, place: Place, definition: Definition, workload: Workload) -> None:
        self._dataset = dataset
        self.place, self.definition, self.workload = place, definition, workload
        self.axes = definition.resolve_axes(workload.axes)

    @property
    def is_recorded(self) -> bool:
        """Whether an engine was seen to make this call."""
        return self.workload.provenance is not None and self.workload.provenance.kind == "engine"

    def stored(self, name: str) -> Any:
        """The tensor that the input's file holds; None where it holds none that fits (the check `workload` says so)."""
        spec, declared = self.workload.inputs.get(name), self.definition.inputs.get(name)
        if not isinstance(spec, SafetensorsInput) or declared is None:
            return None
        try:
            tensor = self._dataset.load_tensor(spec)
        except DatasetError:
            return None
        return tensor if tuple(tensor.shape) == self.definition.shape(name, self.axes) else None

    def integers(self, name: str) -> Any:
        """Like `stored`, as int64, for inputs of an integer type only; an empty tensor gives None too."""
        declared = self.definition.inputs.get(name)
        tensor = self.stored(name) if declared is not None and is_integer(declared) else None
        return tensor.astype("int64") if tensor is not None and tensor.size and tensor.dtype.kind in "iu" else None

    def is_random(self, name: str) -> bool:
        return isinstance(self.workload.inputs.get(name), RandomInput)

    def value(self, name: str) -> Any:
        """A scalar's number, a stored tensor, else None."""
        spec = self.workload.inputs.get(name)
        return spec.value if isinstance(spec, ScalarInput) else self.stored(name)


class Context:
    """One validation: records are read once, tensors again by each check that needs them."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._described: dict[tuple[str, str | None], dict[str, blobs.Stored]] = {}

    @cached_property
    def definitions(self) -> list[tuple[Place, Definition]]:
        found = self.dataset.index.documents("definitions")
        return [(Place(path), self.dataset.reader.document(Definition, path)) for path in found]

    @cached_property
    def solutions(self) -> dict[str, tuple[Place, Solution]]:
        return {solution.name: (Place(path), solution) for path, solution in self.dataset.reader.solutions()}

    @cached_property
    def workloads(self) -> list[tuple[Place, str, Workload]]:
        """Every workload, with its place and the name of its definition."""
        found = self.dataset.reader.workloads()
        return [(Place(file, line), trace.definition, trace.workload) for file, line, trace in found]

    @cached_property
    def by_name(self) -> dict[str, Definition]:
        return {definition.name: definition for _, definition in self.definitions}

    def describe(self, spec: SafetensorsInput) -> dict[str, blobs.Stored]:
        """The tensors that the input's file holds; DatasetError where it cannot be read or has another SHA-256."""
        key = spec.path, spec.sha256
        if key not in self._described:
            self._described[key] = blobs.describe(self.dataset.verified_path(spec))
        return self._described[key]

    def cases(self) -> Iterator[Case]:
        for place, name, workload in self.workloads:
            try:
                yield Case(self.dataset, place, self.by_name[name], workload)
            except (KeyError, DatasetError):  # the check `workload` says so
                continue


def is_integer(spec: TensorSpec) -> bool:
    """Whether the input holds indices, offsets or lengths; int8 is quantised data."""
    return spec.dtype in (DType.INT16, DType.INT32, DType.INT64)
