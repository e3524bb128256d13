"""An engine's entry point: what is put in force in its process, and what is said about it there."""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Callable, Sequence

from kernelmill.apply.arming.start import start
from kernelmill.apply.guard.events import Events
from kernelmill.apply.runtime import Looks, Runtime
from kernelmill.apply.state import current


def runtime_here() -> Runtime:
    """What the environment names, in force from now on; a runtime that serves nothing where that cannot be."""
    found = current() if start() else None
    return found or Runtime("cpu", Looks(), Events(None))


def placed(part: Callable[[Runtime], str], runtime: Runtime) -> str:
    """What a part has put in place, or why it could not, without failing the engine for it."""
    try:
        return part(runtime)
    except (ImportError, AttributeError, AssertionError, TypeError, RuntimeError) as error:
        return f"{part.__name__.strip('_')} NOT substituted: {type(error).__name__}: {error}"


def tell(engine: str, runtime: Runtime, parts: Sequence[str]) -> None:
    """One line in the engine's log and an event, at every start: an engine only logs that a plugin failed to load."""
    log = logging.getLogger(f"{engine}.kernelmill")
    process = f"{multiprocessing.current_process().name} ({os.getpid()})"
    if not runtime.definitions or any(" NOT " in part for part in parts):
        log.error("kernelmill in process %s: %s; see: kernelmill apply explain", process, "; ".join(parts))
    else:
        log.warning("kernelmill in process %s: %s", process, "; ".join(parts))
    runtime.events.write(engine, parts=list(parts))
