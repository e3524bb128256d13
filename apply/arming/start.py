"""Enabling in a process that did not ask for it in code: it must never fail for it, and must not stay silent."""

from __future__ import annotations

import sys
from collections.abc import Callable

from kernelmill.apply.settings import is_traced, is_wanted
from kernelmill.trace_schema.errors import KernelMillError


def start(*adapters: Callable[[], None]) -> bool:
    """Turns on what the environment asks for, with these adapters. What cannot be is told on stderr, each by itself.

    False where nothing is on.
    """
    from kernelmill.apply import state

    runtime = state.current()
    if (runtime is None or not runtime.served) and is_wanted():
        _try("apply", state.enable_apply)
    if (runtime is None or runtime.tracer is None) and is_traced():
        from kernelmill.apply.tracing.switch import enable_tracing

        _try("tracing", enable_tracing)
    for adapter in adapters if state.current() is not None else ():
        _try("apply", adapter)
    return state.current() is not None


def _try(what: str, do: Callable[[], object]) -> None:
    try:
        do()
    except (KernelMillError, ImportError, OSError) as error:
        print(f"kernelmill: {what} is off: {error}", file=sys.stderr)
