"""What executors have in common: a unit of work, an owner's charge, and the lines that an owner says."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import kernelmill
from kernelmill.evaluator.devices.base import Kind
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.evaluator.runner import Event
from kernelmill.evaluator.sandbox import Limits
from kernelmill.trace_schema import Trace
from kernelmill.trace_schema.errors import InternalError

START_S = 180.0
"""Deadline of an owner's start: importing torch and opening its device."""
SILENCE_S = 3600.0
"""An owner says something after each build and each workload. One that says nothing for so long is taken for lost."""
WAY_OUT = "what it judged before is saved; judge the rest with: kernelmill run --resume"


Stop = Callable[[], bool]
OPEN_NAMED = "kernelmill.evaluator.devices:open_device"
OPEN_FREE = "kernelmill.evaluator.devices:open_free"


class Seen(NamedTuple):
    """What an owner says of its device; enough to plan a run."""

    kind: Kind
    model: str


@dataclass(frozen=True, slots=True)
class Charge:
    """What an owner is told once: which device to open, how, and how thoroughly to judge on it."""

    device: str
    options: JudgeOptions
    opener: str = OPEN_NAMED
    """module:function from the device's name to the Device."""

    def to_json(self) -> str:
        return json.dumps({"version": kernelmill.__version__, **asdict(self)}, default=str)

    @classmethod
    def from_json(cls, text: str) -> Charge:
        """Raises InternalError for another version's: its traces would not be ours to save."""
        raw = json.loads(text)
        if raw["version"] != kernelmill.__version__:
            raise InternalError(
                f"{platform.node()} has kernelmill {kernelmill.__version__}, and the run is by {raw['version']}; "
                "install the same version on both"
            )
        options = raw["options"]
        options["limits"] = Limits(**options["limits"])
        options["cache"] = Path(options["cache"]) if options["cache"] else None
        return cls(raw["device"], JudgeOptions(**options), raw["opener"])


@dataclass(frozen=True, slots=True)
class Unit:
    """What one owner judges at a stretch: some workloads of one definition."""

    dataset: str
    """Its folder, which must have the same path wherever the unit is judged."""
    definition: str
    solutions: Sequence[str]
    workloads: Sequence[str]
    """Uuids."""
    done: Sequence[Sequence[str]] = ()
    """(solution hash, workload hash) pairs that need no judging."""

    def __str__(self) -> str:
        return f"{self.definition} ({len(self.solutions)} solutions on {len(self.workloads)} workloads)"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Unit:
        return cls(**json.loads(text))


class Message(NamedTuple):
    """One line of an owner. `event` comes with a "event", `seen` with "ready"."""

    kind: str
    """ready, refused, event, done, lost"""
    text: str = ""
    seen: Seen | None = None
    event: Event | None = None

    def to_json(self) -> str:
        raw: dict[str, Any] = {"kind": self.kind, "text": self.text, "seen": self.seen, "event": None}
        if self.event is not None:
            trace = self.event.trace
            record = trace.model_dump_json(exclude_unset=True) if trace else None
            raw["event"] = [self.event.kind, self.event.text, record]
        return json.dumps(raw)

    @classmethod
    def from_json(cls, text: str | bytes) -> Message:
        """Raises ValueError (of json, of pydantic) for what no owner says."""
        raw = json.loads(text)
        event = None
        if raw["event"]:
            kind, told, record = raw["event"]
            event = Event(kind, told, Trace.model_validate_json(record) if record else None)
        return cls(raw["kind"], raw["text"], Seen(*raw["seen"]) if raw["seen"] else None, event)


class Executor(Protocol):
    """Where units are judged."""

    @property
    def seen(self) -> Seen:
        """Of each of its devices: they are alike."""

    @property
    def share(self) -> int:
        """How many units can be judged at once."""

    def run(self, units: Sequence[Unit], stop: Stop | None = None) -> Iterator[Event]:
        """Events as they come. A unit that is lost becomes a harness_error; it is not tried again.

        `stop` is asked about once a second; once it says True the run ends, and nothing that it started is left.
        """

    def close(self) -> None: ...


def lost(unit: Unit, why: str) -> Event:
    """The event that tells of a unit which nobody judges any more."""
    return Event("harness_error", f"{unit}: {why}; {WAY_OUT}")


def never() -> bool:
    """A run that nobody stops."""
    return False
