"""The environment in which any python that a program starts is armed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

SITE = Path(__file__).parent / "site"


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """`given` with apply on, and our `sitecustomize` before the program's own, which it runs too.

    Interpreters started with -I, -E or -S read neither; there the program has to import kernelmill.
    """
    path = os.pathsep.join([str(SITE), *filter(None, [given.get("PYTHONPATH")])])
    return {**given, "KERNELMILL_ENABLE_APPLY": "1", "PYTHONPATH": path}
