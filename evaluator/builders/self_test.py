"""Does a builder work here? Build its example for real, and run it if the caller can."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from kernelmill.evaluator.builders.base import Artifact, Builder
from kernelmill.evaluator.builders.pipeline import build
from kernelmill.evaluator.sandbox import Limits, Sandbox
from kernelmill.trace_schema.errors import KernelMillError

TIMEOUT_S = 300.0


def check_builder(
    builder: Builder,
    sandbox: Sandbox,
    *,
    run: Callable[[Artifact], str | None] | None = None,
    timeout_s: float = TIMEOUT_S,
    target: str = "cpu",
) -> str | None:
    """None if the example builds in a cache of its own and `run`, which calls it in a worker, finds no fault either."""
    if problem := builder.available():
        return problem
    with tempfile.TemporaryDirectory(prefix="kernelmill-self-test-") as cache:
        try:
            artifact = build(
                builder.example,
                cache=Path(cache),
                sandbox=sandbox,
                timeout_s=timeout_s,
                limits=Limits(),
                target=target,
            )
            return run(artifact) if run else None
        except KernelMillError as error:
            return str(error)
