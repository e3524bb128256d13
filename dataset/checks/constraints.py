"""The definition's constraints hold in every workload, over its axes, scalars and stored tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from kernelmill.dataset.checks.context import Case, Context
from kernelmill.dataset.checks.finding import Finding
from kernelmill.trace_schema import ConstraintError
from kernelmill.trace_schema import constraints as language


class _Unknown:
    """Stands for a tensor whose values nobody knows yet, a random one. Its shape may be asked for, nothing else."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.ndim = shape, len(shape)

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("the values are random")

    item = min = max = sum = all = any = __getitem__ = __eq__ = __ne__ = __bool__ = _refuse
    __hash__ = None  # type: ignore[assignment]


def check(context: Context) -> Iterator[Finding]:
    for case in context.cases():
        for constraint in case.definition.constraints:
            yield from _check(case, constraint)


def _check(case: Case, constraint: str) -> Iterator[Finding]:
    try:
        names = language.parse(constraint).names
    except ConstraintError:  # the check `definition` says so
        return
    values = _values(case, names)
    if names - case.axes.keys() - values.keys():
        return  # an output, an input left out, or a missing file
    try:
        holds = language.check(constraint, case.axes, values)
    except ConstraintError as error:
        if not any(isinstance(value, _Unknown) for value in values.values()):
            yield case.place.error("$.workload", str(error), "correct the constraint of the definition")
        return
    if not holds:
        known = ", ".join(f"{name} = {case.axes[name]}" for name in sorted(names & case.axes.keys()))
        message = f"the constraint {constraint!r} of {case.definition.name} does not hold" + (
            f" ({known})" if known else ""
        )
        yield case.place.error("$.workload", message, "correct the workload, or the constraint if it asks too much")


def _values(case: Case, names: frozenset[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names & case.definition.inputs.keys() - case.axes.keys():
        value = case.value(name)
        if value is None and name in case.workload.inputs:
            shape = case.definition.shape(name, case.axes)
            value = _Unknown(shape) if case.is_random(name) and shape is not None else None
        if value is not None:
            found[name] = value
    return found
