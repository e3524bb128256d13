"""TileLang solutions: Python that the worker compiles at its first call. Only where tilelang and a GPU are."""

from __future__ import annotations

from kernelmill.evaluator.builders import toolchain
from kernelmill.evaluator.builders.base import Kind
from kernelmill.evaluator.builders.example import example_solution
from kernelmill.evaluator.builders.plan import SyntaxPlan
from kernelmill.evaluator.builders.python import syntax_plan
from kernelmill.trace_schema.solution import Language, Solution

SOURCE = """\
import tilelang
import tilelang.language as T


@tilelang.jit
def scale(n, block=128):
    @T.prim_func
    def kernel(x: T.Tensor((n,), "float32"), out: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=block) as index:
            for lane in T.Parallel(block):
                if index * block + lane < n:
                    out[index * block + lane] = 2.0 * x[index * block + lane]

    return kernel


def run(x, out):
    scale(x.shape[0])(x, out)
"""


class TileLangBuilder:
    """The artifact is the package tree itself."""

    kind: Kind = "python"
    name = "tilelang"
    optional = True
    timed = True
    example = example_solution(Language.TILELANG, "main.py", SOURCE)

    def accepts(self, solution: Solution) -> bool:
        return solution.spec.language is Language.TILELANG

    def available(self) -> str | None:
        return toolchain.missing_package("tilelang", "tilelang")

    def identity(self) -> dict[str, str]:
        return {**toolchain.host_identity(), "tilelang": toolchain.package_version("tilelang")}

    def plan(self, solution: Solution, library: str) -> SyntaxPlan:
        return syntax_plan(solution)

    def worker_env(self) -> dict[str, str]:
        return {}
