"""Python solutions: nothing to compile, but a file that does not parse is told so before a worker is spent on it."""

from __future__ import annotations

from kernelmill.evaluator.builders import toolchain
from kernelmill.evaluator.builders.base import BuildError, Kind
from kernelmill.evaluator.builders.example import example_solution
from kernelmill.evaluator.builders.plan import SyntaxPlan
from kernelmill.trace_schema.solution import Language, Solution

SOURCE = """\
import torch


def run(x, out):
    torch.mul(x, 2.0, out=out)
"""


class PythonBuilder:
    """The artifact is the package tree itself."""

    kind: Kind = "python"
    name = "python"
    optional = False
    timed = True
    example = example_solution(Language.PYTHON, "main.py", SOURCE)

    def accepts(self, solution: Solution) -> bool:
        return solution.spec.language is Language.PYTHON

    def available(self) -> str | None:
        return None

    def identity(self) -> dict[str, str]:
        return toolchain.host_identity()

    def plan(self, solution: Solution, library: str) -> SyntaxPlan:
        return syntax_plan(solution)

    def worker_env(self) -> dict[str, str]:
        return {}


def syntax_plan(solution: Solution) -> SyntaxPlan:
    """Raises BuildError where the entry file could not be imported whatever it holds."""
    entry = solution.spec.entry_file
    if not entry.endswith(".py"):
        raise BuildError(f"entry file {entry!r} must end in .py", kind="compile")
    if "." in entry.removesuffix(".py"):
        raise BuildError(f"entry file {entry!r}: a dot cannot be part of a module's name; rename it", kind="compile")
    return SyntaxPlan(tuple(path for path in solution.files if path.endswith(".py")))
