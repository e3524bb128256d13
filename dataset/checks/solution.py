"""Solutions load, implement a definition that is there, and their Python sources parse and have the entry function."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelmill.dataset.checks import misspelling
from kernelmill.dataset.checks.context import Context
from kernelmill.dataset.checks.finding import Finding, Place, from_problems
from kernelmill.trace_schema import Solution
from kernelmill.trace_schema.python_source import parse_module


def check(context: Context) -> Iterator[Finding]:
    for place, solution in context.solutions.values():
        yield from misspelling.check(place, solution)
        if solution.definition not in context.by_name:
            message = f"there is no definition {solution.definition!r}"
            yield place.error("$.definition", message, "add it, or delete the solution")
        if not solution.spec.language.is_native:
            yield from _sources(place, solution)
    yield from from_problems(context.dataset.problems(), "solutions")


def _sources(place: Place, solution: Solution) -> Iterator[Finding]:
    for number, source in enumerate(solution.sources):
        if not source.path.endswith(".py"):
            continue
        path = f"$.sources[{number}].content"
        try:
            module = parse_module(source.content, source.path)
        except ValueError as error:
            yield place.error(path, str(error), "correct it")
            continue
        symbol = solution.spec.entry_symbol
        if source.path.removeprefix("./") == solution.spec.entry_file and not _may_define(module, symbol):
            message = f"the entry file {source.path} defines no {symbol!r} at its top level"
            yield place.warning("$.spec.entry_point", message, "name a function that it defines")


def _may_define(module: ast.Module, symbol: str) -> bool:
    """Whether any statement could bind the name; a star import could bind anything."""
    for node in ast.walk(module):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                bound = node.name
            case ast.Name(ctx=ast.Store()):
                bound = node.id
            case ast.alias():
                bound = node.asname or node.name
            case _:
                continue
        if bound in (symbol, "*"):
            return True
    return False
