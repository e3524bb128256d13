"""C++ solutions behind the torch binding: a Python extension module made by `PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)`.

Torch's headers take about half a minute and 1.5 GB for each source that includes them.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

from kernelmill.evaluator.builders import toolchain
from kernelmill.evaluator.builders.base import Kind
from kernelmill.evaluator.builders.example import example_solution
from kernelmill.evaluator.builders.plan import LibraryPlan
from kernelmill.trace_schema.solution import Binding, Language, Solution

SOURCE = """\
#include <torch/extension.h>

void scale(const torch::Tensor& x, torch::Tensor out) { at::mul_out(out, x, at::scalar_tensor(2.0f)); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &scale); }
"""
CXX_FLAGS = ("-std=c++20",)
"""What torch itself compiles extensions with."""
LIBRARIES = ("-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python")
LINKING = ("-Wl,-z,defs", "-Wl,--warn-unresolved-symbols")
"""Python's own symbols stay unresolved, so they are warnings here, and the child refuses all others."""


class TorchBuilder:
    """The artifact is one extension module."""

    kind: Kind = "torch"
    optional = False
    timed = True
    example = example_solution(Language.CPP, "main.cpp", SOURCE, Binding.TORCH)

    def accepts(self, solution: Solution) -> bool:
        return solution.spec.language is Language.CPP and solution.spec.effective_binding is Binding.TORCH

    def available(self) -> str | None:
        if problem := toolchain.missing_tool() or toolchain.missing_package("torch", "torch"):
            return problem
        header = Path(sysconfig.get_path("include")) / "Python.h"
        return None if header.exists() else f"{header} not found; apt-get install python3-dev"

    def identity(self) -> dict[str, str]:
        return {
            **toolchain.host_identity(),
            **toolchain.compiler_identity((*_flags(), *CXX_FLAGS, *_link_flags())),
        }

    def plan(self, solution: Solution, library: str) -> LibraryPlan:
        symbol = solution.spec.entry_symbol
        return LibraryPlan(
            compiler=toolchain.compiler(),
            flags=(*_flags(), f"-DTORCH_EXTENSION_NAME={library}"),
            cxx_flags=CXX_FLAGS,
            link_flags=_link_flags(),
            sources=toolchain.native_sources(solution),
            library=f"{library}.so",
            export=f"PyInit_{library}",
            hint=f'write PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("{symbol}", &<function>); }}',
            python_symbols=True,
        )

    def worker_env(self) -> dict[str, str]:
        return {}


def _flags() -> tuple[str, ...]:
    include = toolchain.package_path("torch") / "include"
    system = [include, include / "torch" / "csrc" / "api" / "include", Path(sysconfig.get_path("include"))]
    isystem = [word for path in system for word in ("-isystem", str(path))]
    return (*toolchain.FLAGS, "-DTORCH_API_INCLUDE_EXTENSION_H", *isystem)


def _link_flags() -> tuple[str, ...]:
    return (f"-L{toolchain.package_path('torch') / 'lib'}", *LIBRARIES, *LINKING)
