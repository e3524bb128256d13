"""What the build child is told to do. Standard library only: this is imported inside the sandbox."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SyntaxPlan:
    """Check that Python files compile, without running them."""

    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LibraryPlan:
    """Compile C and C++ sources into one shared library."""

    compiler: str
    flags: tuple[str, ...]
    """For every source."""
    cxx_flags: tuple[str, ...]
    """For C++ sources only."""
    link_flags: tuple[str, ...]
    sources: tuple[str, ...]
    """Relative to the source directory."""
    library: str
    """File name of the result."""
    export: str
    """Dynamic symbol that the result must define."""
    hint: str
    """What the author must write so that it does."""
    cuda_compiler: str = ""
    """For .cu sources, with `cuda_flags` in place of all others."""
    cuda_flags: tuple[str, ...] = ()
    python_symbols: bool = False
    """Whether the C API of Python may stay unresolved: the interpreter provides it when the library is imported."""
    max_bytes: int = 64 << 20
    """Size of the largest library that is accepted."""


Plan = SyntaxPlan | LibraryPlan
