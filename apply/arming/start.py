"""Enabling in a process that did not ask for it in code: it must never fail for it, and must not stay silent."""

from __future__ import annotations

import sys
from collections.abc import Callable

from kernelmill.trace_schema.errors import KernelMillError


def start(*adapters: Callable[[], None]) -> bool:
    """Puts in force what the environment names, with these adapters. False, and a line on stderr, where it cannot."""
    from kernelmill.apply import state

    try:
        if state.current() is None:
            state.enable_apply()
        for adapter in adapters:
            adapter()
    except (KernelMillError, ImportError, OSError) as error:
        print(f"kernelmill: apply is off: {error}", file=sys.stderr)
        return False
    return True
