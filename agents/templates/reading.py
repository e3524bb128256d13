"""What a template needs to know of a definition and can only find in its text."""

from __future__ import annotations

import ast

from kernelmill.trace_schema import AxisConst, Definition, DType


def constants(definition: Definition) -> dict[str, int]:
    """Sizes of the constant axes."""
    return {name: axis.value for name, axis in definition.axes.items() if isinstance(axis, AxisConst)}


def counts_from_one(definition: Definition) -> bool:
    """Whether the reference adds 1 to something, as Gemma's norms do to their weight."""
    sums = (node for node in ast.walk(ast.parse(definition.reference)) if isinstance(node, ast.BinOp))
    return any(
        isinstance(side, ast.Constant) and side.value == 1
        for node in sums
        if isinstance(node.op, ast.Add)
        for side in (node.left, node.right)
    )


def shaped(definition: Definition, *shapes: tuple[str, str, tuple[str, ...]]) -> bool:
    """Whether the inputs, then the outputs, are exactly these (name, dtype, axes)."""
    tensors = {**definition.inputs, **definition.outputs}
    given = [(name, spec.dtype.value, tuple(spec.shape or ())) for name, spec in tensors.items()]
    return given == list(shapes) and not any(spec.inout or spec.optional for spec in tensors.values())


BF16, F32, I32, I64 = DType.BFLOAT16.value, DType.FLOAT32.value, DType.INT32.value, DType.INT64.value
