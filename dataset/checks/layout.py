"""Files stand where the public layout puts them, and every name can be a file name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from kernelmill.dataset import paths
from kernelmill.dataset.checks.context import Context
from kernelmill.dataset.checks.finding import Finding, Place
from kernelmill.trace_schema.errors import DatasetError


def check(context: Context) -> Iterator[Finding]:
    for place, definition in context.definitions:
        yield from _expect(place, paths.definition_file, definition.op_type, definition.name)
    for place, solution in context.solutions.values():
        if owner := context.by_name.get(solution.definition):
            yield from _expect(
                place, paths.solution_file, solution.author, owner.op_type, solution.definition, solution.name
            )
    for file, name, solution_name in context.dataset.index.groups():
        if owner := context.by_name.get(name):
            yield from _lines(context, Place(file), owner.op_type, name, solution_name)
    yield from _strays(context)


def _lines(context: Context, place: Place, op_type: str, name: str, solution: str | None) -> Iterator[Finding]:
    if solution is None:
        yield from _expect(place, paths.workload_file, op_type, name)
    elif solution in context.solutions:
        author = context.solutions[solution][1].author
        if place.file == f"traces/{op_type}/{name}.jsonl":
            message = "the file has no author's folder, as before that became the layout"
            yield place.warning("$", message, f"move its lines to {paths.trace_file(author, op_type, name)}")
        else:
            yield from _expect(place, paths.trace_file, author, op_type, name)


def _expect(place: Place, file_of: Callable[..., str], *names: str) -> Iterator[Finding]:
    try:
        expected = file_of(*names)
    except DatasetError as error:
        yield place.error("$", str(error))
        return
    if place.file != expected:
        yield place.error("$", f"what it holds belongs in {expected}", "move it there, or correct its names")


def _strays(context: Context) -> Iterator[Finding]:
    root = context.dataset.root
    for tree, suffix in paths.TREES.items():
        for folder, _, names in [] if (root / tree).is_symlink() else os.walk(root / tree):
            for name in sorted(names):
                file = PurePosixPath(os.path.relpath(folder, root)) / name
                is_note = (name.startswith(".") and not name.endswith(".tmp")) or name.lower().endswith(".md")
                if not name.endswith(suffix) and not is_note and str(file).isprintable():
                    message = f"the file is not read: only {suffix} files are in {tree}/"
                    yield Place(str(file)).warning("$", message, "rename, move or delete it")
