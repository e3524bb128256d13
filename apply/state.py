"""Turning apply on and off, nested: each switch remembers what was in force before it, and brings that back."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kernelmill.apply import calls
from kernelmill.apply.guard.counters import keep_writing
from kernelmill.apply.guard.events import Events
from kernelmill.apply.installed import Installed
from kernelmill.apply.runtime import Candidate, Looks, Runtime
from kernelmill.apply.settings import Settings
from kernelmill.trace_schema.errors import KernelMillError

if TYPE_CHECKING:
    from kernelmill.apply.tracing.tracer import Tracer


class Switch:
    """What `enable_apply` and `disable_apply` return. As a context manager it undoes itself at the end."""

    def __init__(self, runtime: Runtime | None, before: Switch | None) -> None:
        self.runtime = runtime
        self._before = before

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()

    def undo(self) -> bool:
        """Brings back what was in force before. False, and no change, where another switch lies above this."""
        if _top is not self:
            return False
        _turn(self._before)
        return True


_top: Switch | None = None


def current() -> Runtime | None:
    """What is in force, or None."""
    return _top.runtime if _top else None


def current_tracer() -> Tracer | None:
    """What sees the calls, or None."""
    runtime = current()
    return runtime.tracer if runtime else None


def enable_apply(home: str | os.PathLike[str] | None = None, *, shadow: float | None = None) -> Switch:
    """Puts the approved kernels of `home` in force, in this whole process.

    `home` is the folder that `kernelmill apply build` and `approve` wrote, else KERNELMILL_APPLY_HOME. Raises
    ApplyError where it cannot be trusted or read; kernels that do not fit this machine are left out, an event each.
    """
    settings = Settings.read(os.environ if home is None else {**os.environ, "KERNELMILL_APPLY_HOME": os.fspath(home)})
    share = settings.shadow if shadow is None else shadow
    runtime = load(settings, Looks(share, settings.first, counts=settings.metrics is not None))
    if settings.metrics is not None:
        keep_writing(runtime, settings.metrics)
    return force(runtime)


def disable_apply() -> Switch:
    """Nothing is served until the switch is undone, or another one is turned. Tracing goes on."""
    tracer = current_tracer()
    return _turn(Switch(_idle(tracer) if tracer else None, _top))


def force(runtime: Runtime) -> Switch:
    """Puts a runtime in force."""
    tracer = current_tracer()
    return _turn(Switch(dataclasses.replace(runtime, tracer=tracer) if tracer else runtime, _top))


def trace(tracer: Tracer) -> Switch:
    """Lets the tracer see every call of what is in force."""
    runtime = current()
    return _turn(Switch(dataclasses.replace(runtime, tracer=tracer) if runtime else _idle(tracer), _top))


def _idle(tracer: Tracer) -> Runtime:
    """Serves nothing."""
    return Runtime("cpu", Looks(), Events(None), tracer=tracer)


def load(settings: Settings, looks: Looks, device: str = "auto") -> Runtime:
    """Everything that `settings.home` offers this machine, loaded. Raises ApplyError."""
    from kernelmill.apply.host import device_of

    installed = Installed.read(settings)
    name, model = device_of(device)
    runtime = Runtime(name, looks, Events(settings.events))
    for chosen in installed.choices(model):
        try:
            candidates = [
                Candidate(one.solution, one.solution_hash, installed.load(one), one.destination_passing)
                for one in chosen.approvals
            ]
            runtime.serve(chosen.definition, chosen.features, chosen.boxes, candidates)
        except (KernelMillError, ImportError, OSError) as error:
            runtime.events.write("left_out", definition=chosen.definition.name, why=str(error))
            print(f"kernelmill: {chosen.definition.name} stays as it is: {error}", file=sys.stderr)
    for note in installed.notes:
        runtime.events.write("left_out", definition=note.definition, what=note.what, why=note.why)
    runtime.events.write("enabled", device=model, home=str(settings.home), definitions=sorted(runtime.served))
    return runtime


def _turn(switch: Switch | None) -> Switch:
    """Puts the switch on top, or nothing."""
    global _top
    _top = switch
    runtime = switch.runtime if switch else None
    calls.put_in_force(runtime.dispatchers if runtime else {})
    for watcher in watchers:
        watcher(runtime)
    return switch or _NOTHING


_NOTHING = Switch(None, None)
watchers: list[Callable[[Runtime | None], None]] = []
"""Told of what is in force whenever that changes: the patches of engines come and go with it."""
