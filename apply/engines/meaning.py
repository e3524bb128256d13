"""What a definition means to an adapter: facts that its tensors do not say. Known are those served and those traced."""

from __future__ import annotations

from kernelmill.apply.runtime import Runtime
from kernelmill.dataset.norms import epsilon_of
from kernelmill.trace_schema import Definition


def shapes_of(definition: Definition) -> tuple[list[list[str]], list[list[str]]]:
    """Axis names of all inputs and outputs; a scalar has none and is told by [""]."""
    inputs, outputs = (
        [spec.shape if spec.shape is not None else [""] for spec in side.values()]
        for side in (definition.inputs, definition.outputs)
    )
    return inputs, outputs


def does(definition: Definition, function: str) -> bool:
    """Whether its tags name the function (`fi_api:…silu_and_mul`) or its name begins with it.

    Shapes cannot tell silu from gelu, or a norm from Gemma's, whose weight counts from one.
    """
    return definition.name.startswith(f"{function}_") or any(tag.endswith(f".{function}") for tag in definition.tags)


def gemms(runtime: Runtime) -> dict[tuple[int, ...], str]:
    """Known definitions that multiply rows by a weight [N, K], by that shape."""
    found = {}
    for name, definition in runtime.definitions.items():
        inputs, outputs = shapes_of(definition)
        if definition.op_type == "gemm" and len(inputs) == 2 and len(outputs) == 1:
            (rows, weight), (result,) = inputs, outputs
            if len(weight) == 2 and rows[1:] == weight[1:] and result == [rows[0], weight[0]]:
                sizes = [definition.const_axes.get(axis) for axis in weight]
                if rows[0] in definition.var_axes and None not in sizes:
                    found[tuple(size for size in sizes if size is not None)] = name
    return found


def norms(runtime: Runtime) -> dict[tuple[int, float], str]:
    """Known definitions that take the RMS norm of rows with a weight, by width and epsilon."""
    found = {}
    for name, definition in runtime.definitions.items():
        inputs, outputs = shapes_of(definition)
        epsilon = epsilon_of(definition) if definition.op_type == "rmsnorm" else None
        fits = len(inputs) == 2 and len(outputs) == 1
        if fits and does(definition, "rmsnorm") and epsilon is not None:
            (rows, weight), (result,) = inputs, outputs
            width = definition.const_axes.get(weight[0]) if weight else None
            if len(rows) == 2 and weight == rows[1:] and result == rows and width is not None:
                found[width, epsilon] = name
    return found


def fused_norms(runtime: Runtime) -> dict[tuple[int, float], str]:
    """Known definitions that norm the sum of rows and residual, and give the norm alone, by width and epsilon."""
    found = {}
    for name, definition in runtime.definitions.items():
        inputs, outputs = shapes_of(definition)
        epsilon = epsilon_of(definition) if definition.op_type == "rmsnorm" else None
        fits = len(inputs) == 3 and len(outputs) == 1
        if fits and does(definition, "fused_add_rmsnorm") and epsilon is not None:
            (rows, residual, weight), (result,) = inputs, outputs
            width = definition.const_axes.get(weight[0]) if len(weight) == 1 else None
            if (
                rows == residual == result
                and weight == rows[1:]
                and width is not None
                and "residual" in definition.inputs
            ):
                found[width, epsilon] = name
    return found


def gated(runtime: Runtime, activation: str) -> dict[int, str]:
    """Known definitions that gate one half of a row by the other with this activation, by the row's whole width."""
    found = {}
    for name, definition in runtime.definitions.items():
        inputs, outputs = shapes_of(definition)
        fits = definition.op_type == "activation" and len(inputs) == len(outputs) == 1
        if fits and does(definition, f"{activation}_and_mul"):
            (rows,), (result,) = inputs, outputs
            sizes = [definition.const_axes.get(axes[-1]) for axes in (rows, result)]
            if len(rows) == len(result) == 2 and None not in sizes and sizes[0] == 2 * (sizes[1] or 0):
                found[sizes[0] or 0] = name
    return found
