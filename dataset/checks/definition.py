"""Definitions load, and what they say of themselves can be used: constraints, costs, the reference's signature."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelmill.dataset.checks import misspelling
from kernelmill.dataset.checks.context import Context
from kernelmill.dataset.checks.finding import Finding, Place, from_problems
from kernelmill.trace_schema import ConstraintError, Definition
from kernelmill.trace_schema.constraints import parse
from kernelmill.trace_schema.python_source import parse_module


def check(context: Context) -> Iterator[Finding]:
    for place, definition in context.definitions:
        if not definition.description:
            yield place.info("$.description", "there is no description", "say what the kernel computes")
        yield from misspelling.check(place, definition)
        yield from _axes(place, definition)
        yield from _constraints(place, definition)
        yield from _cost(place, definition)
        yield from _reference(place, definition)
    yield from from_problems(context.dataset.problems(), "definitions")


def _axes(place: Place, definition: Definition) -> Iterator[Finding]:
    bound = {axis for spec in definition.inputs.values() for axis in spec.shape or []}
    for name in definition.var_axes:
        if name not in bound:
            message = "no input's shape has this axis, so a call's arguments do not say its size"
            yield place.warning(f"$.axes.{name}", message, "use it in a shape, or make it const")


def _constraints(place: Place, definition: Definition) -> Iterator[Finding]:
    known = definition.axes.keys() | definition.inputs.keys() | definition.outputs.keys()
    for number, constraint in enumerate(definition.constraints):
        path = f"$.constraints[{number}]"
        try:
            unknown = sorted(parse(constraint).names - known)
        except ConstraintError as error:
            yield place.warning(path, f"it is not evaluated: {error}", "write it in the expression language")
            continue
        if unknown:
            message = f"{constraint!r} names {', '.join(unknown)}, which is neither an axis nor a tensor"
            yield place.warning(path, message, "correct the name; until then it is not evaluated")


def _cost(place: Place, definition: Definition) -> Iterator[Finding]:
    for field in ("bytes", "flops"):
        expression = definition.cost and getattr(definition.cost, field)
        if expression and (unknown := sorted(parse(expression).names - definition.axes.keys())):
            yield place.error(f"$.cost.{field}", f"{expression!r} names {', '.join(unknown)}, no axis", "correct it")


def _reference(place: Place, definition: Definition) -> Iterator[Finding]:
    module = parse_module(definition.reference, "the reference")
    # The last `def run` is the one that a caller gets.
    run = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "run"][-1]
    positional = len(run.args.posonlyargs) + len(run.args.args)
    least = positional - len(run.args.defaults)
    forced = [arg.arg for arg, default in zip(run.args.kwonlyargs, run.args.kw_defaults, strict=True) if not default]
    count = len(definition.inputs)
    if count < least or (count > positional and run.args.vararg is None) or forced:
        given = ", ".join(definition.inputs)
        signature = f"run({ast.unparse(run.args)})"
        message = (
            f"the reference is called with the {count} inputs ({given}) by position, which {signature} does not take"
        )
        yield place.error("$.reference", message, "give it one parameter an input, in their order")
