"""From a solution to an artifact: choose the builder, look in the cache, else build in the sandbox and store it."""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict
from functools import cache as remembered
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kernelmill.evaluator.builders.base import Artifact, Builder, BuildError, UnsupportedHere
from kernelmill.evaluator.builders.cache import Cache, Entry, copy_regular
from kernelmill.evaluator.builders.plan import LibraryPlan, Plan
from kernelmill.evaluator.builders.python import PythonBuilder
from kernelmill.evaluator.builders.sources import write_sources
from kernelmill.evaluator.builders.tilelang import TileLangBuilder
from kernelmill.evaluator.builders.torch_ext import TorchBuilder
from kernelmill.evaluator.builders.triton import TritonBuilder
from kernelmill.evaluator.builders.tvm_ffi import TvmFfiBuilder
from kernelmill.evaluator.sandbox import Completed, Limits, Mount, Sandbox, plain
from kernelmill.trace_schema import hashing
from kernelmill.trace_schema.errors import InternalError
from kernelmill.trace_schema.solution import Language, Solution

BUILDERS: tuple[Builder, ...] = (PythonBuilder(), TritonBuilder(), TvmFfiBuilder(), TorchBuilder())
"""For the CPU."""
CHILD = "kernelmill.evaluator.builders.child"
FORMAT = 1
"""Part of every key: raise it when the child, the layout or the meaning of a plan changes."""
LOG_CHARS = 64 << 10
LOCK_MARGIN_S = 30.0
DIAGNOSIS = re.compile(r"^.*(?:error: |Error: |undefined reference to ).*$", re.MULTILINE)
NEEDS_GPU = (Language.CUDA, Language.TILELANG)


class Outcome(BaseModel):
    """The child's last line: data from the sandbox, checked as such."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    status: Literal["ok", "compile", "resource", "toolchain"]
    log: str = Field(max_length=LOG_CHARS)


@remembered
def builders_for(target: str) -> tuple[Builder, ...]:
    """`target`: cpu, or the architecture of a GPU, such as sm_90."""
    if target == "cpu":
        return BUILDERS
    gpu = (TritonBuilder(interpreted=False), TileLangBuilder(), TvmFfiBuilder(target), TorchBuilder(target))
    return (PythonBuilder(), *gpu, TvmFfiBuilder(), TorchBuilder())


def builder_for(solution: Solution, target: str = "cpu") -> Builder:
    """Raises UnsupportedHere where this host has none for the solution's language."""
    language = solution.spec.language
    for builder in builders_for(target):
        if builder.accepts(solution):
            problem = builder.available() if builder.optional else None
            if problem is None:
                return builder
            raise UnsupportedHere(f"solution {solution.name!r} is written in {language}: {problem}")
    assert language in NEEDS_GPU
    raise UnsupportedHere(
        f"solution {solution.name!r} is written in {language}, which needs an NVIDIA GPU; "
        "on a host that has one: kernelmill run --device cuda"
    )


def build(
    solution: Solution, *, cache: Path, sandbox: Sandbox, timeout_s: float, limits: Limits, target: str = "cpu"
) -> Artifact:
    """The solution's artifact, from `cache` if it was built before.

    Raises BuildError (the author's fault), UnsupportedHere (nobody's) or InternalError (ours: no compiler, no sandbox).
    """
    builder = builder_for(solution, target)
    if problem := builder.available():
        raise InternalError(f"solution {solution.name!r} ({solution.spec.language}) cannot be built here: {problem}")
    key = cache_key(builder, solution)
    plan = builder.plan(solution, f"kernelmill_{key[:16]}")
    store = Cache(cache / "build")
    with store.locked(key, 2 * timeout_s + LOCK_MARGIN_S):
        found = store.read(key)
        entry = found or _make(store, key, solution, plan, sandbox, timeout_s, limits)
    manifest = entry.manifest
    if manifest.failure is not None:
        raise BuildError(manifest.failure, kind="compile", log=manifest.log)
    return Artifact(
        solution_hash=solution.hash(),
        kind=builder.kind,
        directory=entry.directory,
        entry=plan.library if isinstance(plan, LibraryPlan) else solution.spec.entry_file,
        symbol=solution.spec.entry_symbol,
        destination_passing=solution.spec.destination_passing_style,
        log=manifest.log,
        seconds=manifest.seconds,
        cached=found is not None,
        worker_env=builder.worker_env(),
        timed=builder.timed,
    )


def cache_key(builder: Builder, solution: Solution) -> str:
    """SHA-256 over the sources, the part of the spec that a build reads, and the builder's identity."""
    return hashing.digest(
        "build",
        {
            "format": FORMAT,
            "kind": builder.kind,
            "entry_point": [solution.spec.entry_file, solution.spec.entry_symbol],
            "sources": solution.files,
            "identity": builder.identity(),
        },
    )


def _make(
    store: Cache, key: str, solution: Solution, plan: Plan, sandbox: Sandbox, timeout_s: float, limits: Limits
) -> Entry:
    with store.workshop(key) as workshop:
        source, output, files = (workshop / name for name in ("source", "output", "files"))
        for directory in (source, output, files):
            directory.mkdir()
        write_sources(solution.sources, source)
        mounts = (Mount(source, "/source"), Mount(output, "/output", writable=True))
        order = {
            "source": sandbox.inside(mounts[0]),
            "output": sandbox.inside(mounts[1]),
            "library" if isinstance(plan, LibraryPlan) else "syntax": asdict(plan),
        }
        start = time.monotonic()
        completed = sandbox.run(
            sandbox.python(CHILD), mounts=mounts, limits=limits, timeout_s=timeout_s, stdin=json.dumps(order).encode()
        )
        seconds = time.monotonic() - start
        outcome = read_outcome(completed, timeout_s)
        if outcome.status == "compile":
            return store.put(key, files, log=outcome.log, seconds=seconds, failure=diagnosis(outcome.log))
        if isinstance(plan, LibraryPlan):
            _take(output / plan.library, files / plan.library, plan.max_bytes)
        return store.put(key, files if isinstance(plan, LibraryPlan) else source, log=outcome.log, seconds=seconds)


def read_outcome(completed: Completed, timeout_s: float) -> Outcome:
    """What the child said: ok or compile. Raises BuildError for what the author used up, InternalError for the rest."""
    outcome = _parse(completed.output)
    log = outcome.log if outcome else completed.output[-LOG_CHARS:]
    if completed.timed_out:
        raise BuildError(f"the build took longer than {timeout_s:g} s", kind="timeout", log=log)
    if completed.limit is not None:
        raise BuildError(f"the build hit its limit of {completed.limit}", kind="resource", log=log)
    if outcome is None:
        reason = f"exit status {completed.returncode}, said {log[-500:]!r}"
        raise InternalError(f"the build sandbox failed ({reason}); see: kernelmill doctor")
    if outcome.status == "toolchain":
        raise InternalError(f"the compiler does not work in the sandbox: {log[:500]}; see: kernelmill doctor")
    if outcome.status == "resource":
        raise BuildError(f"the compiler ran out of resources: {diagnosis(log)}", kind="resource", log=log)
    return outcome


def _parse(output: str) -> Outcome | None:
    try:
        outcome = Outcome.model_validate_json(output.strip().rpartition("\n")[2])
    except ValidationError:
        return None
    return outcome.model_copy(update={"log": plain(outcome.log)[:LOG_CHARS]})


def diagnosis(log: str) -> str:
    """The line of a compiler's log that a person would look for."""
    found = DIAGNOSIS.search(log)
    return (found[0] if found else log.strip().partition("\n")[0]).strip()[
        :500
    ] or "the compiler refused without a word"


def _take(source: Path, target: Path, max_bytes: int) -> None:
    try:
        copy_regular(source, target, max_bytes)
    except OSError as error:
        raise InternalError(f"the build sandbox left no usable library: {error}; see: kernelmill doctor") from error
