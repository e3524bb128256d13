"""Triton solutions. On a GPU the worker compiles them at their first call. On the CPU they run under Triton's
interpreter: good for a verdict, meaningless as a time.

The interpreter has no arithmetic in bfloat16: it computes on the bit patterns. Kernels that widen to float32 first,
as most do, are right.
"""

from __future__ import annotations

from kernelmill.evaluator.builders import toolchain
from kernelmill.evaluator.builders.base import Kind
from kernelmill.evaluator.builders.example import example_solution
from kernelmill.evaluator.builders.plan import SyntaxPlan
from kernelmill.evaluator.builders.python import syntax_plan
from kernelmill.trace_schema.solution import Language, Solution

SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def scale(x, out, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    tl.store(out + index, 2.0 * tl.load(x + index, mask=inside), mask=inside)


def run(x, out):
    scale[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
"""


class TritonBuilder:
    """The artifact is the package tree itself; the kernels are compiled, or interpreted, in the worker."""

    kind: Kind = "triton"
    name = "triton"
    optional = True
    example = example_solution(Language.TRITON, "main.py", SOURCE)

    def __init__(self, *, interpreted: bool = True) -> None:
        self.timed = not interpreted

    def accepts(self, solution: Solution) -> bool:
        return solution.spec.language is Language.TRITON

    def available(self) -> str | None:
        return toolchain.missing_package("triton", "triton")

    def identity(self) -> dict[str, str]:
        return {**toolchain.host_identity(), "triton": toolchain.package_version("triton")}

    def plan(self, solution: Solution, library: str) -> SyntaxPlan:
        return syntax_plan(solution)

    def worker_env(self) -> dict[str, str]:
        return {} if self.timed else {"TRITON_INTERPRET": "1"}
