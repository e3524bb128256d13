"""CUDA C++ solutions: what compiling and linking with nvcc adds to a binding's own way of building."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from kernelmill.evaluator.builders import toolchain
from kernelmill.evaluator.builders.base import BuildError
from kernelmill.trace_schema.solution import Solution

STANDARD = Path("/usr/local/cuda/bin/nvcc")
FLAGS = ("-O3", "--expt-relaxed-constexpr", "--expt-extended-lambda", "-Xcompiler=-fPIC", "-I.")
SUFFIXES = (*toolchain.SUFFIXES, ".cu")


def compiler() -> str | None:
    """nvcc of CUDA_HOME, of the PATH, or where it is usually installed."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    places = [Path(home) / "bin" / "nvcc"] if home else []
    found = shutil.which("nvcc")
    places += [Path(found)] if found else []
    return next((str(place) for place in (*places, STANDARD) if place.is_file()), None)


def missing() -> str | None:
    if problem := toolchain.missing_tool():
        return problem
    return None if compiler() else "nvcc not found; install the CUDA toolkit, or set CUDA_HOME to where it is"


def home() -> Path:
    return Path(compiler() or STANDARD).resolve().parents[1]


def flags(arch: str) -> tuple[str, ...]:
    """`arch` such as sm_90. From Hopper on the variant with all of its own instructions is compiled for."""
    number = arch.removeprefix("sm_")
    full = f"{number}a" if int(number) >= 90 else number
    return (*FLAGS, f"-gencode=arch=compute_{full},code=sm_{full}")


def link_flags() -> tuple[str, ...]:
    libraries = home() / "lib64"
    return (f"-L{libraries}", f"-L{libraries / 'stubs'}", "-lcudart", "-lcuda", f"-Wl,-rpath,{libraries}")


def include_flags() -> tuple[str, ...]:
    return ("-isystem", str(home() / "include"))


def identity(arch: str) -> dict[str, str]:
    path = compiler() or ""
    return {
        "nvcc": f"{path}: {toolchain.ask(path, '--version')}",
        "nvcc flags": "\0".join((*flags(arch), *link_flags())),
    }


def sources(solution: Solution) -> tuple[str, ...]:
    """The files to compile. Raises BuildError where none is CUDA."""
    found = tuple(path for path in solution.files if path.endswith(SUFFIXES))
    if not any(path.endswith(".cu") for path in found):
        raise BuildError("language cuda needs a source that ends in .cu: nothing to compile", kind="compile")
    toolchain.check_symbol(solution)
    return found
