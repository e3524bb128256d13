"""The environment in which any python that a program starts is armed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

SITE = Path(__file__).parent / "site"


def environment(given: Mapping[str, str], *, trace: str | None = None) -> dict[str, str]:
    """`given` with apply on, and our `sitecustomize` before the program's own, which it runs too.

    With `trace`, a folder, tracing is on, and apply only where `given` says so. Interpreters started with -I, -E or -S
    read neither; there the program has to import kernelmill.
    """
    path = os.pathsep.join([str(SITE), *filter(None, [given.get("PYTHONPATH")])])
    wanted = {"KERNELMILL_ENABLE_APPLY": "1"}
    if trace is not None:
        wanted = {"KERNELMILL_ENABLE_TRACING": "1", "KERNELMILL_TRACING_OUT": trace}
    return {**given, **wanted, "PYTHONPATH": path}
