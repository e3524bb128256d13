"""The C++ compiler of this host, and what identifies everything that a build depends on."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from kernelmill.evaluator.builders.base import BuildError
from kernelmill.trace_schema.errors import InternalError
from kernelmill.trace_schema.solution import Solution

FLAGS = ("-O3", "-march=native", "-fopenmp", "-fPIC", "-fmax-errors=20", "-I.")
"""For every source; `-I.` is the solution's own root. No fast-math: an author who wants it says so by a pragma."""
SUFFIXES = (".cpp", ".cc", ".cxx", ".c")
SYMBOL = re.compile("[A-Za-z_][A-Za-z0-9_]*")
QUERY_DEADLINE_S = 30.0


def missing_tool() -> str | None:
    """None if C++ can be compiled here, else what is missing and how to get it."""
    if shutil.which("g++") is None:
        return "g++ not found on PATH; apt-get install g++"
    if shutil.which("nm") is None:
        return "nm not found on PATH; apt-get install binutils"
    return None


def missing_package(module: str, distribution: str) -> str | None:
    return None if find_spec(module) else f"the package {distribution} is not installed; pip install {distribution}"


def package_path(module: str) -> Path:
    """Where an installed package lies; it is not imported."""
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise InternalError(f"the Python package {module} is not installed; pip install {module}")
    return Path(spec.submodule_search_locations[0])


def compiler() -> str:
    """The path of g++ as it is found: resolving links would see through a wrapper such as ccache."""
    found = shutil.which("g++")
    if found is None:
        raise InternalError(missing_tool() or "g++ not found")
    return found


def host_identity() -> dict[str, str]:
    """The Python side of a build's identity."""
    return {"python": sys.version, "torch": package_version("torch"), "machine": platform.machine()}


def compiler_identity(flags: Sequence[str]) -> dict[str, str]:
    """The native side. `-march=native` stands for this processor's features, so what it expands to is part of it."""
    path = compiler()
    features = ask(path, "-march=native", "-Q", "--help=target")
    return {
        "compiler": f"{path}: {ask(path, '--version').splitlines()[0]}",
        "target": hashlib.sha256(features.encode()).hexdigest(),
        "libc": " ".join(platform.libc_ver()),
        "flags": "\0".join(flags),
    }


def package_version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "none"


def native_sources(solution: Solution) -> tuple[str, ...]:
    """The files to compile. Raises BuildError where there are none, or some that this language does not cover."""
    cuda = [path for path in solution.files if path.endswith(".cu")]
    if cuda:
        raise BuildError(f"language cpp compiles no .cu file ({cuda[0]}); set language cuda", kind="compile")
    found = tuple(path for path in solution.files if path.endswith(SUFFIXES))
    if not found:
        raise BuildError(f"no source ends in {', '.join(SUFFIXES)}: nothing to compile", kind="compile")
    check_symbol(solution)
    return found


def check_symbol(solution: Solution) -> None:
    if not SYMBOL.fullmatch(solution.spec.entry_symbol):
        raise BuildError(f"entry symbol {solution.spec.entry_symbol!r} is not a C++ name", kind="compile")


def ask(*argv: str) -> str:
    try:
        done = subprocess.run(
            argv,
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=QUERY_DEADLINE_S,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise InternalError(f"{' '.join(argv)} fails ({error}); reinstall it: apt-get install g++") from error
    return done.stdout
