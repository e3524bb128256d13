"""Tracing in force: what it looks at, how it lies over the dispatchers, and its regular writing."""

from __future__ import annotations

import fnmatch
import json
import os
import sys
import threading
import time
import uuid
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernelmill.apply.missed import Missed
from kernelmill.apply.settings import is_traced
from kernelmill.apply.tracing.choose import choose
from kernelmill.apply.tracing.judge import fault_of
from kernelmill.apply.tracing.sample import Sample
from kernelmill.apply.tracing.settings import TracingSettings
from kernelmill.apply.tracing.watched import Memory, Watched
from kernelmill.apply.tracing.write import Output
from kernelmill.apply.tracing.writer import Writer
from kernelmill.dataset import Dataset
from kernelmill.dataset.append import append_line
from kernelmill.trace_schema import Definition
from kernelmill.trace_schema.errors import KernelMillError

REPORT = "tracing.jsonl"
"""A line a process, beside the dataset's folders."""
_not_served = Missed("its calls are traced, and no kernel is in force for it")


class Tracer:
    """One switch's worth of tracing. It outlives the switch only as long as its last write takes."""

    def __init__(self, settings: TracingSettings) -> None:
        self.settings = settings
        self.definitions = _definitions(settings)
        self.memory = Memory(settings.bytes)
        self.writer = Writer(self._write, settings.every_s, settings.deadline_s)
        self.watched = {
            name: Watched(one, settings, self.memory, self.writer.start) for name, one in self.definitions.items()
        }
        self._begin()
        _tracers.add(self)

    def over(self, served: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
        """The dispatchers, with a look at every call before it; for what is traced and not served, a miss."""
        found = dict(served)
        for name, watched in self.watched.items():
            found[name] = _looked_at(watched, served.get(name))
        return found

    def report(self) -> dict[str, dict[str, Any]]:
        """By definition, of those that were called: the calls that fit, those that did not and why; together all."""
        found = {}
        for name, watched in self.watched.items():
            late = self._refused.get(name, Counter())
            calls = sum(total for _, _, total in watched.totals()) - late.total()
            if calls or late or watched.unfit:
                found[name] = {"calls": calls, "unfit": dict(Counter(watched.unfit) + late)}
        return found

    def stop(self) -> None:
        """Writes for the last time, and says so."""
        if not self.writer.stop():
            print(f"kernelmill: tracing was not written within {self.settings.deadline_s:g} s", file=sys.stderr)

    def _begin(self) -> None:
        self._session = uuid.uuid4().hex[:12]
        self._output = Output(self.settings.out, self.settings.dataset, self._session)
        self._written: dict[str, int] = {}
        self._refused: dict[str, Counter[str]] = {}
        self._writing = threading.Lock()
        self._is_over = False

    def forget(self) -> None:
        """In a forked child, whose calls are its own and none was made yet."""
        self._begin()
        self.memory.held = 0
        self.writer.forget()
        for watched in self.watched.values():
            watched.forget()

    def _write(self, is_last: bool) -> None:
        """In the writer's thread. What goes wrong is told, and tried again the next time."""
        with self._writing:
            if self._is_over:
                return
            for name, watched in self.watched.items():
                try:
                    self._write_one(name, watched, is_last=is_last)
                except (KernelMillError, OSError, ValueError, RuntimeError) as error:
                    print(f"kernelmill: calls of {name} were not written: {error}", file=sys.stderr)
            self.memory.held = sum(sample.bytes for one in self.watched.values() for sample in one.samples())
            if is_last:
                self._is_over = True
                self._tell()

    def _write_one(self, name: str, watched: Watched, *, is_last: bool) -> None:
        totals = watched.totals()
        calls = sum(total for _, _, total in totals)
        if not calls or (calls == self._written.get(name) and not is_last):
            return
        for sample in watched.samples():
            self._judge(watched.definition, sample)
        choice = choose(watched.definition, totals, self.settings.workloads)
        refused = self._output.write(watched.definition, choice.stood, is_last=is_last) if choice.stood else Counter()
        self._written[name], self._refused[name] = calls, choice.refused + refused

    def _judge(self, definition: Definition, sample: Sample) -> None:
        if not sample.is_judged and sample.finish(self.settings.deadline_s):
            sample.fault = fault_of(definition, sample)
            sample.is_judged = True

    def _tell(self) -> None:
        told = self.report()
        if not told:
            return
        line = {
            "session": self._session,
            "pid": os.getpid(),
            "program": sys.argv[0] if sys.argv else "",
            "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "definitions": told,
        }
        try:
            append_line(self._output.dataset.root, REPORT, json.dumps(line).encode() + b"\n")
        except KernelMillError as error:
            print(f"kernelmill: {error}", file=sys.stderr)
        if not is_traced():  # in code `report` tells
            return
        calls = sum(one["calls"] for one in told.values())
        unfit = sum(sum(one["unfit"].values()) for one in told.values())
        rest = f"; {unfit} did not fit, see {REPORT} there" if unfit else ""
        print(f"kernelmill: {calls} calls traced into {self.settings.out}{rest}", file=sys.stderr)


def _definitions(settings: TracingSettings) -> dict[str, Definition]:
    """Those of the output, whose lines must fit them, go before others of the same name."""
    found: dict[str, Definition] = {}
    places = [settings.dataset, *([settings.out] if settings.out.is_dir() else [])]
    for place in map(Dataset.open, dict.fromkeys(places)):
        for name in place.definitions:
            if not settings.only or any(fnmatch.fnmatchcase(name, pattern) for pattern in settings.only):
                found[name] = place.definitions[name]
    return found


class _Once:
    """Runs the caller's own kernel as part of a call that was counted."""

    def __init__(self, watched: Watched, missed: Missed) -> None:
        self._watched = watched
        self._missed = missed

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any], fallback: Callable[..., Any]) -> Any:
        return self._watched.within(self._missed.settle, args, kwargs, fallback)


def _looked_at(watched: Watched, dispatch: Callable[..., Any] | None) -> Callable[..., Any]:
    saw, within = watched.saw, watched.within
    known: dict[int, tuple[Missed, Missed]] = {}
    """A dispatcher has few of them, which live as long as it."""

    def once(missed: Missed) -> Missed:
        if id(missed) not in known:
            known[id(missed)] = missed, Missed(missed.why, _Once(watched, missed))
        return known[id(missed)][1]

    not_served = once(_not_served)
    if dispatch is None:

        def look(*args: Any, **kwargs: Any) -> Missed:
            saw(args, kwargs)
            return not_served

        return look

    def served(*args: Any, **kwargs: Any) -> Any:
        saw(args, kwargs)
        result = within(dispatch, *args, **kwargs)
        return once(result) if result.__class__ is Missed else result

    return served


_tracers: weakref.WeakSet[Tracer] = weakref.WeakSet()


def _forked() -> None:
    for tracer in list(_tracers):
        tracer.forget()


os.register_at_fork(after_in_child=_forked)
