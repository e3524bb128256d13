"""What a builder is, what it makes, and how it fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from kernelmill.evaluator.builders.plan import Plan
from kernelmill.trace_schema.errors import KernelMillError, SubmissionError
from kernelmill.trace_schema.solution import Solution

Kind = Literal["python", "triton", "tvm-ffi", "torch"]
Fault = Literal["invalid", "compile", "timeout", "resource"]


class BuildError(SubmissionError):
    """The solution does not build, and the author is told why."""

    def __init__(self, message: str, *, kind: Fault, log: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        """invalid: the sources cannot even be laid out; compile: the compiler or linker refused them; timeout;
        resource: memory, processes, disk or log ran out."""
        self.log = log
        """What the compiler said, capped."""


class UnsupportedHere(KernelMillError):
    """This host cannot build the solution's language. Nobody's fault: it is skipped with a notice, without a trace."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A built solution, in the cache."""

    solution_hash: str
    kind: Kind
    directory: Path
    """Holds the package tree or the library and nothing else; to be shown to the worker read-only."""
    entry: str
    """The file in `directory` that is loaded."""
    symbol: str
    """The function in it that is called."""
    destination_passing: bool
    log: str
    """Compiler warnings."""
    seconds: float
    """How long the build took; of the first one if `cached`."""
    cached: bool
    worker_env: Mapping[str, str]
    """Environment that the worker needs to load it."""
    timed: bool
    """False where only a verdict means something (the Triton interpreter): no performance is recorded."""


class Builder(Protocol):
    """One way to make an artifact. Stateless."""

    kind: Kind
    name: str
    """What it builds, for a person: one of a device's builders has it."""
    optional: bool
    """Whether what it needs may be missing from a healthy host: an extra, not a dependency."""
    timed: bool
    """False where only a verdict means something."""
    example: Solution
    """Source of the self-test: doubles the float32 vector `x` into `out`, destination passing."""

    def accepts(self, solution: Solution) -> bool: ...

    def available(self) -> str | None:
        """None if it works here, else what is missing and the command that mends it."""

    def identity(self) -> dict[str, str]:
        """Everything beyond the sources that decides what comes out; part of the cache key."""

    def plan(self, solution: Solution, library: str) -> Plan:
        """What the child does. `library` names the module if there is one. Raises BuildError."""

    def worker_env(self) -> dict[str, str]: ...
