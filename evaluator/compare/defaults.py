"""Which comparator a definition gets that names none, as public definitions don't.

The choice follows from what the definition computes, never from its name, so that renaming changes no verdict. The
first rule that fits decides:

1. sampling:    the op type is "sampling".
2. topk_set:    its one output holds integers along an axis that no input has: choices out of a larger set, which
                one matrix called a table and one vector called lens describe where there are such.
3. attention:   a floating output and beside it one called lse, of the same shape but for the last axis.
4. state:       outputs that are updated in place, or called new_X like an input X of their shape and type, and one
                integer vector that by its name holds X's indices, or slots.
5. lowbit:      a floating output of inputs in float8 or float4.
6. elementwise: all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kernelmill.trace_schema import Comparator, Definition, DType, TensorSpec
from kernelmill.trace_schema.base import Json
from kernelmill.trace_schema.errors import DatasetError

LOW_BITS = 8
"""A floating type of so many bits or fewer is a low-bit type."""
INTEGERS = (DType.INT32, DType.INT64)


def comparator_of(definition: Definition) -> Comparator:
    """The comparator that the definition names, else the default: its kind, and the tensors that its params name."""
    return definition.comparator or next(_candidates(definition))


def _candidates(definition: Definition) -> Iterator[Comparator]:
    if definition.op_type == "sampling":
        yield Comparator(kind="sampling", params=_sampling(definition))
    yield from _choices(definition)
    yield from _attention(definition)
    yield from _state(definition)
    if any(is_low_bit(spec) for spec in definition.inputs.values()) and any(
        spec.dtype.is_float for spec in definition.outputs.values()
    ):
        yield Comparator(kind="lowbit")
    yield Comparator(kind="elementwise")


def is_low_bit(spec: TensorSpec) -> bool:
    return spec.shape is not None and spec.dtype.is_float and spec.dtype.bits <= LOW_BITS


def _sampling(definition: Definition) -> dict[str, Json]:
    """The public sampling definitions name their inputs alike."""
    names: dict[str, Json] = {name: name for name in ("probs", "top_p", "top_k", "min_p") if name in definition.inputs}
    return {**names, "samples": next(iter(definition.outputs), None)}


def _choices(definition: Definition) -> Iterator[Comparator]:
    of_inputs = {axis for spec in definition.inputs.values() for axis in spec.shape or []}
    chosen = [
        name
        for name, spec in definition.outputs.items()
        if spec.dtype in INTEGERS and len(spec.shape or []) > 1 and (spec.shape or [""])[-1] not in of_inputs
    ]
    if chosen == list(definition.outputs) and len(chosen) == 1:
        integers = {name: len(spec.shape or []) for name, spec in definition.inputs.items() if spec.dtype in INTEGERS}
        pages = [name for name, rank in integers.items() if rank == 2 and name.endswith("table")]
        lengths = [name for name, rank in integers.items() if rank == 1 and name.endswith("lens")]
        paged = {"pages": pages[0], "lengths": lengths[0]} if len(pages) == len(lengths) == 1 else {}
        yield Comparator(kind="topk_set", params={"indices": chosen[0], **paged})


def _attention(definition: Definition) -> Iterator[Comparator]:
    for lse, spec in definition.outputs.items():
        for output, wide in definition.outputs.items():
            beside = lse.endswith("lse") and spec.dtype.is_float and wide.dtype.is_float
            if beside and wide.shape and wide.shape[:-1] == spec.shape:
                yield Comparator(kind="attention", params={"output": output, "lse": lse})


def _state(definition: Definition) -> Iterator[Comparator]:
    vectors = [n for n, spec in definition.inputs.items() if spec.dtype in INTEGERS and len(spec.shape or []) == 1]
    states: list[Json] = []
    indices: set[str] = set()
    for name, spec in definition.outputs.items():
        before = initial_of(definition, name)
        given = definition.inputs.get(before)
        if given is not None and (given.shape, given.dtype) == (spec.shape, spec.dtype):
            found = {vector for vector in vectors if "slot" in vector or (before in vector and "ind" in vector)}
            states += [name] if found else []
            indices |= found
    if len(indices) == 1:
        yield Comparator(kind="state", params={"state": states, "indices": indices.pop()})


def initial_of(definition: Definition, output: str) -> str:
    """The input that holds an output's state before the call: the one it updates in place, else X for new_X."""
    return definition.outputs[output].inout or output.removeprefix("new_")


def tensor_names(definition: Definition, params: Mapping[str, object], *roles: str) -> dict[str, str]:
    """The params that name tensors, by role. Raises DatasetError for a name that is no input or output."""
    names = {role: str(params[role]) for role in roles if params.get(role) is not None}
    for role, name in names.items():
        if name not in definition.inputs and name not in definition.outputs:
            raise DatasetError(f"{definition.name}: comparator param {role}={name!r} names no input or output")
    return names
