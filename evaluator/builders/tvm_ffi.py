"""C++ and CUDA solutions behind the TVM-FFI binding: a shared library that exports `__tvm_ffi_<symbol>`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kernelmill.evaluator.builders import nvcc, toolchain
from kernelmill.evaluator.builders.base import Kind
from kernelmill.evaluator.builders.example import example_solution
from kernelmill.evaluator.builders.plan import LibraryPlan
from kernelmill.trace_schema.solution import Binding, Language, Solution

SOURCE = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

void scale(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* from = static_cast<const float*>(x.data_ptr());
  float* to = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.size(0); ++i) to[i] = 2.0f * from[i];
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, scale);
"""
CXX_FLAGS = ("-std=c++17",)


CUDA_SOURCE = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

__global__ void scale_kernel(const float* x, float* out, int64_t n) {
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = 2.0f * x[i];
}

void scale(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const DLDevice device = x.device();
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  const int64_t n = x.size(0);
  scale_kernel<<<(n + 255) / 256, 256, 0, stream>>>(
      static_cast<const float*>(x.data_ptr()), static_cast<float*>(out.data_ptr()), n);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, scale);
"""


class TvmFfiBuilder:
    """The artifact is one library. Every symbol must resolve at link time, so that nothing is left for the load."""

    kind: Kind = "tvm-ffi"
    timed = True

    def __init__(self, arch: str = "") -> None:
        """`arch`: the GPU that CUDA is compiled for, such as sm_90; C++ without it."""
        self._arch = arch
        self.name = "cuda (tvm-ffi)" if arch else "tvm-ffi"
        self.optional = bool(arch)
        self.example = (
            example_solution(Language.CUDA, "main.cu", CUDA_SOURCE, Binding.TVM_FFI)
            if arch
            else example_solution(Language.CPP, "main.cpp", SOURCE, Binding.TVM_FFI)
        )

    def accepts(self, solution: Solution) -> bool:
        language = Language.CUDA if self._arch else Language.CPP
        return solution.spec.language is language and solution.spec.effective_binding is Binding.TVM_FFI

    def available(self) -> str | None:
        problem = nvcc.missing() if self._arch else toolchain.missing_tool()
        return problem or toolchain.missing_package("tvm_ffi", "apache-tvm-ffi")

    def identity(self) -> dict[str, str]:
        return {
            **toolchain.host_identity(),
            **toolchain.compiler_identity((*_flags(), *CXX_FLAGS, *_link_flags())),
            **(nvcc.identity(self._arch) if self._arch else {}),
            "tvm-ffi": toolchain.package_version("apache-tvm-ffi"),
        }

    def plan(self, solution: Solution, library: str) -> LibraryPlan:
        symbol = solution.spec.entry_symbol
        plan = LibraryPlan(
            compiler=toolchain.compiler(),
            flags=_flags(),
            cxx_flags=CXX_FLAGS,
            link_flags=_link_flags(),
            sources=nvcc.sources(solution) if self._arch else toolchain.native_sources(solution),
            library=f"{library}.so",
            export=f"__tvm_ffi_{symbol}",
            hint=f"the entry point says {symbol}: write TVM_FFI_DLL_EXPORT_TYPED_FUNC({symbol}, <function>)",
        )
        return with_cuda(plan, self._arch, (*CXX_FLAGS, *_include()), ()) if self._arch else plan

    def worker_env(self) -> dict[str, str]:
        return {}


def with_cuda(plan: LibraryPlan, arch: str, cuda_flags: Sequence[str], libraries: Sequence[str]) -> LibraryPlan:
    """The same plan, which compiles .cu files too and links what they need."""
    return replace(
        plan,
        flags=(*plan.flags, *nvcc.include_flags()),
        link_flags=(*nvcc.link_flags(), *libraries, *plan.link_flags),
        cuda_compiler=nvcc.compiler() or "nvcc",
        cuda_flags=(*nvcc.flags(arch), *cuda_flags),
    )


def _include() -> tuple[str, ...]:
    return ("-isystem", str(toolchain.package_path("tvm_ffi") / "include"))


def _flags() -> tuple[str, ...]:
    return (*toolchain.FLAGS, "-fvisibility=hidden", *_include())


def _link_flags() -> tuple[str, ...]:
    return (f"-L{toolchain.package_path('tvm_ffi') / 'lib'}", "-ltvm_ffi", "-Wl,-z,defs")
