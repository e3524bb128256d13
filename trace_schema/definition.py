"""Definition: what a kernel computes (axes, tensors, a reference) and how its answers are compared."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from kernelmill.trace_schema import constraints, hashing
from kernelmill.trace_schema.base import Count, Flag, Json, Model, Text
from kernelmill.trace_schema.errors import DatasetError
from kernelmill.trace_schema.python_source import parse_expression, parse_module


class DType(StrEnum):
    """Element types that a tensor may have."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E5M2 = "float8_e5m2"
    FLOAT4_E2M1 = "float4_e2m1"
    INT64 = "int64"
    INT32 = "int32"
    INT16 = "int16"
    INT8 = "int8"
    BOOL = "bool"

    @property
    def bits(self) -> int:
        """Bits of one element in memory; a bool takes a whole byte."""
        return _BITS[self]

    @property
    def bytes(self) -> float:
        """Bytes of one element in memory; half a byte for float4_e2m1, which is stored two by two."""
        return self.bits / 8

    @property
    def is_float(self) -> bool:
        """Whether elements are floating point numbers."""
        return self.value.startswith(("float", "bfloat"))


_BITS = {
    DType.FLOAT32: 32,
    DType.FLOAT16: 16,
    DType.BFLOAT16: 16,
    DType.FLOAT8_E4M3FN: 8,
    DType.FLOAT8_E5M2: 8,
    DType.FLOAT4_E2M1: 4,
    DType.INT64: 64,
    DType.INT32: 32,
    DType.INT16: 16,
    DType.INT8: 8,
    DType.BOOL: 8,
}


class AxisConst(Model):
    """An axis whose size is the same in every workload."""

    type: Literal["const"] = "const"
    """Marks a constant axis."""
    value: Count
    """The axis's size."""
    description: str | None = None
    """What the axis counts."""


class AxisVar(Model):
    """An axis whose size each workload sets."""

    type: Literal["var"] = "var"
    """Marks a variable axis."""
    description: str | None = None
    """What the axis counts."""


def _axis_type(raw: Any) -> str | None:
    if not isinstance(raw, Mapping):
        return getattr(raw, "type", None)
    return str(raw.get("type", "const" if "value" in raw else "var"))


Axis = Annotated[
    Annotated[AxisConst, Tag("const")] | Annotated[AxisVar, Tag("var")],
    Discriminator(
        _axis_type,
        custom_error_type="axis_type",
        custom_error_message='an axis is {"type": "const", "value": N} or {"type": "var"}',
    ),
]


class TensorSpec(Model):
    """One input or output: its symbolic shape and element type."""

    shape: list[Text] | None
    """Axis names, outermost first; [] is a 0-d tensor, null a Python scalar."""
    dtype: DType
    """Element type."""
    description: str | None = None
    """What the tensor holds."""
    role: Literal["static", "dynamic"] | None = None
    """static: the same in every call of a deployment, as a weight is; dynamic (default): new in each call."""
    inout: Text | None = None
    """On an output: the input whose buffer it is, updated in place."""
    layout: Text | None = None
    """Memory layout that the shape alone doesn't say, such as NHD or HND."""
    optional: Flag | None = None
    """Whether callers may pass None."""


class Comparator(Model):
    """How outputs are compared with the reference's."""

    kind: Text
    """elementwise, lowbit, attention, sampling, topk_set or state."""
    params: dict[str, Json] = Field(default_factory=dict)
    """Settings of that comparator."""


class Cost(Model):
    """What one call must at least do, as expressions over axes; the defaults follow from the shapes."""

    bytes: Text | None = None
    """Bytes of memory that must be moved."""
    flops: Text | None = None
    """Floating point operations that must be done."""


class Definition(Model):
    """The contract of a kernel: axes, inputs, outputs and a reference that says what is right."""

    name: Text
    """Unique in its dataset; by custom `{op_type}_{properties}_{constants}`."""
    op_type: Text
    """The family of operations, such as gemm, gqa_paged or rmsnorm."""
    axes: dict[Text, Axis]
    """Named sizes that shapes are written in."""
    inputs: dict[Text, TensorSpec]
    """Inputs in calling order."""
    outputs: dict[Text, TensorSpec]
    """Outputs in calling order; no name is also an input's."""
    reference: Text
    """Python source with a top-level `def run(<inputs>)` that returns the outputs."""
    tags: list[Text] = Field(default_factory=list)
    """Labels such as `stage:decode` or `model:llama-3.1-8b`."""
    description: str | None = None
    """What the kernel does."""
    constraints: list[Text] = Field(default_factory=list)
    """Expressions over axes and inputs that hold in every valid workload."""
    comparator: Comparator | None = None
    """How outputs are compared; when left out, by what its tensors are (elementwise for most)."""
    cost: Cost | None = None
    """Least bytes and operations of a call; from the shapes when left out."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_reference(self.reference)
        for constraint in self.constraints:
            parse_expression(constraint, f"constraint {constraint!r}")
        if both := self.inputs.keys() & self.outputs.keys():
            raise ValueError(f"{', '.join(map(repr, sorted(both)))} is both an input and an output: rename the output")
        for kind, tensors in (("input", self.inputs), ("output", self.outputs)):
            for name, spec in tensors.items():
                _check_shape(f"{kind} {name!r}", spec, self.axes)
                _check_inout(f"{kind} {name!r}", spec, self.inputs if kind == "output" else {})
        _check_cost(self.cost)
        return self

    @property
    def const_axes(self) -> dict[str, int]:
        """Sizes of the constant axes."""
        return {name: axis.value for name, axis in self.axes.items() if isinstance(axis, AxisConst)}

    @property
    def var_axes(self) -> list[str]:
        """Names of the axes that a workload sets."""
        return [name for name, axis in self.axes.items() if isinstance(axis, AxisVar)]

    def resolve_axes(self, axes: Mapping[str, int]) -> dict[str, int]:
        """Every axis's size, given the variable ones; DatasetError where one is missing, unknown or wrong."""
        for name, size in axes.items():
            if name not in self.axes:
                known = ", ".join(self.axes) or "none"
                raise DatasetError(f"{self.name} has no axis {name!r}; its axes are: {known}")
            if (const := self.const_axes.get(name, size)) != size:
                raise DatasetError(f"axis {name!r} of {self.name} is always {const}, not {size}")
        return {name: self._size(name, axes) for name in self.axes}

    def shape(self, tensor: str, axes: Mapping[str, int]) -> tuple[int, ...] | None:
        """Concrete shape of an input or output; None for a Python scalar. `axes` needs the variable axes only."""
        spec = self.inputs.get(tensor) or self.outputs.get(tensor)
        if spec is None:
            raise DatasetError(f"{self.name} has no input or output {tensor!r}")
        return None if spec.shape is None else tuple(self._size(axis, axes) for axis in spec.shape)

    def _size(self, name: str, axes: Mapping[str, int]) -> int:
        axis = self.axes[name]
        if isinstance(axis, AxisConst):
            return axis.value
        if name not in axes:
            raise DatasetError(f"{self.name} needs a size for its variable axis {name!r}")
        return axes[name]

    def hash(self) -> str:
        """SHA-256 of all that changes what is computed, judged or measured: not name, op_type, description or tags."""
        comparator = self.comparator or Comparator(kind="elementwise")
        cost = self.cost or Cost()
        return hashing.digest(
            "definition",
            {
                "axes": {name: axis.value if isinstance(axis, AxisConst) else None for name, axis in self.axes.items()},
                "inputs": [_tensor_content(name, spec) for name, spec in self.inputs.items()],
                "outputs": [_tensor_content(name, spec) for name, spec in self.outputs.items()],
                "reference": self.reference,
                "constraints": self.constraints,
                "comparator": [comparator.kind, comparator.params],
                "cost": [cost.bytes, cost.flops],
            },
        )

    def __hash__(self) -> int:
        return hash(self.hash())


def _tensor_content(name: str, spec: TensorSpec) -> list[Any]:
    role, optional = spec.role or "dynamic", bool(spec.optional)
    return [name, spec.shape, spec.dtype.value, role, spec.inout, spec.layout, optional]


def _check_reference(source: str) -> None:
    module = parse_module(source, "reference")
    if not any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in module.body):
        raise ValueError("reference defines no top-level function `def run(...)` (an `async def` doesn't count)")


def _check_shape(what: str, spec: TensorSpec, axes: Mapping[str, Any]) -> None:
    for name in spec.shape or []:
        if name not in axes:
            raise ValueError(f"the shape of {what} names the axis {name!r}, which is not defined in axes")


def _check_inout(what: str, spec: TensorSpec, inputs: Mapping[str, TensorSpec]) -> None:
    if spec.inout is None:
        return
    target = inputs.get(spec.inout)
    if target is None:
        raise ValueError(f"{what} is inout {spec.inout!r}: only an output may be, and of an input that exists")
    if (target.shape, target.dtype) != (spec.shape, spec.dtype) or spec.shape is None:
        raise ValueError(f"{what} is updated in place, so its shape and dtype must be those of input {spec.inout!r}")


def _check_cost(cost: Cost | None) -> None:
    for expression in (cost.bytes, cost.flops) if cost else ():
        if expression is not None:
            try:
                constraints.parse(expression)
            except constraints.ConstraintError as error:
                raise ValueError(f"cost: {error}") from None
