"""C++ solutions behind the TVM-FFI binding: a shared library that exports `__tvm_ffi_<symbol>`."""

from __future__ import annotations

from kernelmill.evaluator.builders import toolchain
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


class TvmFfiBuilder:
    """The artifact is one library. Every symbol must resolve at link time, so that nothing is left for the load."""

    kind: Kind = "tvm-ffi"
    optional = False
    timed = True
    example = example_solution(Language.CPP, "main.cpp", SOURCE, Binding.TVM_FFI)

    def accepts(self, solution: Solution) -> bool:
        return solution.spec.language is Language.CPP and solution.spec.effective_binding is Binding.TVM_FFI

    def available(self) -> str | None:
        return toolchain.missing_tool() or toolchain.missing_package("tvm_ffi", "apache-tvm-ffi")

    def identity(self) -> dict[str, str]:
        return {
            **toolchain.host_identity(),
            **toolchain.compiler_identity((*_flags(), *CXX_FLAGS, *_link_flags())),
            "tvm-ffi": toolchain.package_version("apache-tvm-ffi"),
        }

    def plan(self, solution: Solution, library: str) -> LibraryPlan:
        symbol = solution.spec.entry_symbol
        return LibraryPlan(
            compiler=toolchain.compiler(),
            flags=_flags(),
            cxx_flags=CXX_FLAGS,
            link_flags=_link_flags(),
            sources=toolchain.native_sources(solution),
            library=f"{library}.so",
            export=f"__tvm_ffi_{symbol}",
            hint=f"the entry point says {symbol}: write TVM_FFI_DLL_EXPORT_TYPED_FUNC({symbol}, <function>)",
        )

    def worker_env(self) -> dict[str, str]:
        return {}


def _flags() -> tuple[str, ...]:
    include = toolchain.package_path("tvm_ffi") / "include"
    return (*toolchain.FLAGS, "-fvisibility=hidden", "-isystem", str(include))


def _link_flags() -> tuple[str, ...]:
    return (f"-L{toolchain.package_path('tvm_ffi') / 'lib'}", "-ltvm_ffi", "-Wl,-z,defs")
