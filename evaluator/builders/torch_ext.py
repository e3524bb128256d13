"""C++ and CUDA solutions behind the torch binding: a Python extension module.

It is made by `PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)`. Torch's headers take about half a minute and
1.5 GB for each source that includes them.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

from kernelmill.evaluator.builders import nvcc, toolchain
from kernelmill.evaluator.builders.base import Kind
from kernelmill.evaluator.builders.example import example_solution
from kernelmill.evaluator.builders.plan import LibraryPlan
from kernelmill.evaluator.builders.tvm_ffi import with_cuda
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


CUDA_SOURCE = """\
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

__global__ void scale_kernel(const float* x, float* out, int64_t n) {
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = 2.0f * x[i];
}

void scale(const torch::Tensor& x, torch::Tensor out) {
  const int64_t n = x.numel();
  scale_kernel<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), out.data_ptr<float>(), n);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &scale); }
"""
CUDA_LIBRARIES = ("-lc10_cuda", "-ltorch_cuda")
CUDA_DEFINES = ("-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__", "-D__CUDA_NO_BFLOAT16_CONVERSIONS__")
"""What torch itself compiles CUDA extensions with."""


class TorchBuilder:
    """The artifact is one extension module."""

    kind: Kind = "torch"
    timed = True

    def __init__(self, arch: str = "") -> None:
        """`arch`: the GPU that CUDA is compiled for, such as sm_90; C++ without it."""
        self._arch = arch
        self.name = "cuda (torch)" if arch else "torch"
        self.optional = bool(arch)
        self.example = (
            example_solution(Language.CUDA, "main.cu", CUDA_SOURCE, Binding.TORCH)
            if arch
            else example_solution(Language.CPP, "main.cpp", SOURCE, Binding.TORCH)
        )

    def accepts(self, solution: Solution) -> bool:
        language = Language.CUDA if self._arch else Language.CPP
        return solution.spec.language is language and solution.spec.effective_binding is Binding.TORCH

    def available(self) -> str | None:
        problem = nvcc.missing() if self._arch else toolchain.missing_tool()
        if problem := problem or toolchain.missing_package("torch", "torch"):
            return problem
        header = Path(sysconfig.get_path("include")) / "Python.h"
        return None if header.exists() else f"{header} not found; apt-get install python3-dev"

    def identity(self) -> dict[str, str]:
        return {
            **toolchain.host_identity(),
            **toolchain.compiler_identity((*_flags(), *CXX_FLAGS, *_link_flags())),
            **(nvcc.identity(self._arch) if self._arch else {}),
        }

    def plan(self, solution: Solution, library: str) -> LibraryPlan:
        symbol, name = solution.spec.entry_symbol, f"-DTORCH_EXTENSION_NAME={library}"
        plan = LibraryPlan(
            compiler=toolchain.compiler(),
            flags=(*_flags(), name),
            cxx_flags=CXX_FLAGS,
            link_flags=_link_flags(),
            sources=nvcc.sources(solution) if self._arch else toolchain.native_sources(solution),
            library=f"{library}.so",
            export=f"PyInit_{library}",
            hint=f'write PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("{symbol}", &<function>); }}',
            python_symbols=True,
        )
        flags = (*CXX_FLAGS, *CUDA_DEFINES, *_defines(), name)
        return with_cuda(plan, self._arch, flags, CUDA_LIBRARIES) if self._arch else plan

    def worker_env(self) -> dict[str, str]:
        return {}


def _defines() -> tuple[str, ...]:
    include = toolchain.package_path("torch") / "include"
    system = [include, include / "torch" / "csrc" / "api" / "include", Path(sysconfig.get_path("include"))]
    return ("-DTORCH_API_INCLUDE_EXTENSION_H", *(word for path in system for word in ("-isystem", str(path))))


def _flags() -> tuple[str, ...]:
    return (*toolchain.FLAGS, *_defines())


def _link_flags() -> tuple[str, ...]:
    return (f"-L{toolchain.package_path('torch') / 'lib'}", *LIBRARIES, *LINKING)
