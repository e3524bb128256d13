"""A workload made concrete: which tensors, of what shape and type, in which order, lent how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelmill.evaluator.dtypes import item_bytes
from kernelmill.trace_schema import Definition, RandomInput, SafetensorsInput, ScalarInput, Workload, constraints
from kernelmill.trace_schema.errors import DatasetError

if TYPE_CHECKING:
    import torch

    from kernelmill.dataset import Dataset


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of the call."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: str
    """static (weights: the same all through a sitting), dynamic (new content at every call), inout or output"""

    @property
    def size_bytes(self) -> int:
        size = item_bytes(self.dtype)
        for length in self.shape:
            size *= length
        return size


@dataclass(frozen=True, slots=True)
class Case:
    """One definition at one workload's axes, with what the workload fixes already loaded."""

    definition: Definition
    workload: Workload
    axes: Mapping[str, int]
    inputs: tuple[Tensor | float | int | bool | None, ...]
    """In calling order; a plain value is a scalar argument (None: an optional input left out)."""
    outputs: tuple[Tensor, ...]
    """Every output in definition order, in-place ones included."""
    inout: Mapping[str, str]
    """Output name -> the input it updates in place."""
    fixed: Mapping[str, torch.Tensor]
    """Captured tensors by input name."""

    @property
    def tensors(self) -> list[Tensor]:
        return [argument for argument in self.inputs if isinstance(argument, Tensor)]

    @property
    def passed_outputs(self) -> list[Tensor]:
        """Outputs that are arguments of their own: an in-place one is its input's argument."""
        return [output for output in self.outputs if output.name not in self.inout]

    @property
    def stored_outputs(self) -> list[Tensor]:
        """Where each output comes to lie, in definition order: an in-place one in its input's memory."""
        by_name = {tensor.name: tensor for tensor in self.tensors}
        return [by_name[self.inout[output.name]] if output.name in self.inout else output for output in self.outputs]


def make_case(definition: Definition, workload: Workload, dataset: Dataset | None) -> Case:
    """Raises DatasetError where the workload does not fit its definition."""
    axes = definition.resolve_axes(workload.axes)
    inout = {name: spec.inout for name, spec in definition.outputs.items() if spec.inout}
    fixed: dict[str, torch.Tensor] = {}
    inputs: list[Tensor | float | int | bool | None] = []
    for name in definition.inputs:
        inputs.append(_argument(definition, workload, name, axes, fixed, dataset, set(inout.values())))
    outputs = tuple(_output(definition, name, axes) for name in definition.outputs)
    case = Case(definition, workload, axes, tuple(inputs), outputs, inout, fixed)
    _check_constraints(case)
    return case


def _output(definition: Definition, name: str, axes: Mapping[str, int]) -> Tensor:
    shape = definition.shape(name, axes)
    return Tensor(name, shape if shape is not None else (), definition.outputs[name].dtype.value, "output")


def _argument(
    definition: Definition,
    workload: Workload,
    name: str,
    axes: Mapping[str, int],
    fixed: dict[str, torch.Tensor],
    dataset: Dataset | None,
    updated: set[str],
) -> Tensor | float | int | bool | None:
    spec = definition.inputs[name]
    given = workload.inputs.get(name)
    shape = definition.shape(name, axes)
    if given is None and spec.optional:
        return None
    if isinstance(given, ScalarInput):
        if shape is not None:
            raise DatasetError(
                f"workload {workload.uuid}: input {name!r} is a tensor of {definition.name}, not a scalar"
            )
        return given.value
    if shape is None:
        raise DatasetError(f"workload {workload.uuid}: scalar input {name!r} needs {{type: scalar, value: …}}")
    tensor = Tensor(name, shape, spec.dtype.value, "inout" if name in updated else spec.role or "dynamic")
    if isinstance(given, SafetensorsInput):
        fixed[name] = _load(workload, tensor, given, dataset)
    elif given is not None and not isinstance(given, RandomInput):
        raise DatasetError(f"workload {workload.uuid}: input {name!r} is of an unknown kind")
    return tensor


def _load(workload: Workload, tensor: Tensor, given: SafetensorsInput, dataset: Dataset | None) -> torch.Tensor:
    from kernelmill.evaluator.dtypes import torch_dtype

    if dataset is None:
        raise DatasetError(
            f"workload {workload.uuid}: input {tensor.name!r} is in {given.path}; pass dataset=… to read it"
        )
    loaded = dataset.load_tensor(given, framework="torch")
    want = (torch_dtype(tensor.dtype), tensor.shape)
    if (loaded.dtype, tuple(loaded.shape)) != want:
        raise DatasetError(
            f"workload {workload.uuid}: {given.path}[{given.tensor_key}] is {loaded.dtype} {list(loaded.shape)}, "
            f"but {tensor.name!r} must be {want[0]} {list(want[1])}"
        )
    result: torch.Tensor = loaded.contiguous()
    return result


def _check_constraints(case: Case) -> None:
    values = dict(zip(case.definition.inputs, case.inputs, strict=True))
    known = {**{name: v for name, v in values.items() if not isinstance(v, Tensor)}, **case.fixed}
    for expression in case.definition.constraints or []:
        try:
            holds = constraints.check(expression, case.axes, known)
        except constraints.MissingNameError:
            continue  # it speaks of a random input, which has no value yet
        if not holds:
            raise DatasetError(
                f"workload {case.workload.uuid} breaks the constraint {expression!r} of {case.definition.name} "
                f"with axes {dict(case.workload.axes)}"
            )
