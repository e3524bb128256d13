"""A run directory: what was asked and answered, step by step, in a file that only grows.

`config.json`, `events.jsonl` (each line names the hash of the line before), `blobs/` (long texts by SHA-256),
`solutions/`, `experience.json`, `report.html`. A run is taken up again, or replayed, by running its strategy anew with
the recorded answers in place of the judge and the model: strategies are deterministic, so they ask the same again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from kernelmill.agents.redaction import redacted, secrets_of
from kernelmill.trace_schema import Solution
from kernelmill.trace_schema.errors import DatasetError, InternalError

LONGEST_INLINE = 400
EVENTS = "events.jsonl"
CONFIG = "config.json"
_START = "0" * 64


class ReplayMismatch(InternalError):
    """The run asks something else than what was recorded."""


class Event(NamedTuple):
    """One finished step. `at_s`: seconds of run time when it ended."""

    number: int
    kind: str
    asked: dict[str, Any]
    answered: dict[str, Any]
    parents: list[int]
    at_s: float


class Journal:
    """The steps of one run; opened again, it gives the recorded answers first."""

    def __init__(self, folder: Path, *, strict: bool = False, secrets: tuple[str, ...] | None = None) -> None:
        """`strict`: only recorded answers (a replay), and nothing is written."""
        self.folder = folder
        self._strict = strict
        self._secrets = secrets_of() if secrets is None else secrets
        if not strict:
            for name in ("blobs", "solutions"):
                (folder / name).mkdir(parents=True, exist_ok=True)
        self._last_hash = _START
        self.recorded = self._read()
        self._next = 0
        self.elapsed_s = 0.0
        """Run time at the end of the last step: decisions may rest on it, and are the same in a replay."""
        self._live_since = time.monotonic()

    @property
    def replaying(self) -> bool:
        """Whether the next answer is a recorded one."""
        return self._next < len(self.recorded)

    def configure(self, config: dict[str, Any]) -> None:
        """Keep how the run was set up. Raises ReplayMismatch where the directory holds another set-up."""
        config, path = json.loads(json.dumps(redacted(config, self._secrets))), self.folder / CONFIG
        if path.exists():
            if (kept := read_config(self.folder)) != config:
                different = sorted(key for key in {*kept, *config} if kept.get(key) != config.get(key))
                raise ReplayMismatch(
                    f"{self.folder} holds a run with other settings ({', '.join(different)}); name another directory"
                )
        elif self._strict:
            raise ReplayMismatch(f"{self.folder} holds no run: it has no {CONFIG}")
        else:
            write_atomically(path, json.dumps(config, indent=2, sort_keys=True) + "\n")

    def perform(
        self, kind: str, asked: dict[str, Any], work: Callable[[], dict[str, Any]], parents: list[int] | None = None
    ) -> Event:
        """The recorded answer to this step, else `work`'s, which is on the disk before it is returned.

        Raises ReplayMismatch where another step was recorded here.
        """
        asked = redacted(json.loads(json.dumps(asked)), self._secrets)
        event = self._recorded(kind, asked) if self.replaying else self._performed(kind, asked, work, parents or [])
        self._next, self.elapsed_s = event.number + 1, event.at_s
        return event

    def keep(self, solution: Solution) -> None:
        """A solution's file, by hash; the same again is the same file."""
        path = self.folder / "solutions" / f"{solution.hash()[:16]}.json"
        if not self._strict and not path.exists():
            write_atomically(path, solution.model_dump_json(exclude_unset=True, indent=1))

    def write(self, name: str, text: str) -> None:
        """A file made from the events, such as the report."""
        if not self._strict:
            write_atomically(self.folder / name, redacted(text, self._secrets))

    def _recorded(self, kind: str, asked: dict[str, Any]) -> Event:
        event = self.recorded[self._next]
        self._live_since = time.monotonic() - event.at_s
        if (event.kind, event.asked) != (kind, asked):
            names = sorted(key for key in {*asked, *event.asked} if asked.get(key) != event.asked.get(key))
            other = f" with another {names[0]}" if names else ""
            raise ReplayMismatch(
                f"{self.folder / EVENTS}: step {event.number} was {event.kind}, and the run now asks for {kind}"
                f"{other}; a replay needs the version and data that it was made with"
            )
        return event

    def _performed(
        self, kind: str, asked: dict[str, Any], work: Callable[[], dict[str, Any]], parents: list[int]
    ) -> Event:
        if self._strict:
            raise ReplayMismatch(f"{self.folder / EVENTS} ends after {len(self.recorded)} steps, before this {kind}")
        answered = redacted(json.loads(json.dumps(work())), self._secrets)
        at_s = round(time.monotonic() - self._live_since, 3)
        event = Event(self._next, kind, asked, answered, parents, max(at_s, self.elapsed_s))
        self._append(event)
        self.recorded.append(event)
        return event

    def _append(self, event: Event) -> None:
        raw = {**event._asdict(), "asked": self._stowed(event.asked), "answered": self._stowed(event.answered)}
        line = json.dumps({**raw, "before": self._last_hash}, sort_keys=True).encode() + b"\n"
        with (self.folder / EVENTS).open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self._last_hash = sha256(line).hexdigest()

    def _stowed(self, value: Any) -> Any:
        """The same value, long texts moved into blobs."""
        if isinstance(value, str) and len(value) > LONGEST_INLINE:
            name = sha256(value.encode()).hexdigest()
            path = self.folder / "blobs" / name
            if not path.exists():
                write_atomically(path, value)
            return {"blob": name}
        if isinstance(value, dict):
            return {key: self._stowed(item) for key, item in value.items()}
        return [self._stowed(item) for item in value] if isinstance(value, list) else value

    def _fetched(self, value: Any) -> Any:
        if isinstance(value, dict):
            if set(value) == {"blob"}:
                return self._blob(value["blob"])
            return {key: self._fetched(item) for key, item in value.items()}
        return [self._fetched(item) for item in value] if isinstance(value, list) else value

    def _blob(self, name: str) -> str:
        path = self.folder / "blobs" / Path(name).name
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if sha256(text.encode()).hexdigest() != name:
            raise DatasetError(f"{path} is missing or was changed; the run cannot be read any more")
        return text

    def _read(self) -> list[Event]:
        """Every whole line; a line that a crash cut off is dropped, since its step was never answered."""
        path = self.folder / EVENTS
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data) and not self._strict:
            os.truncate(path, len(whole))
        events = []
        for number, line in enumerate(whole.splitlines(keepends=True)):
            raw = json.loads(line)
            if raw.pop("before") != self._last_hash or raw["number"] != number:
                raise DatasetError(f"{path}: line {number + 1} does not follow from the line before; it was changed")
            self._last_hash = sha256(line).hexdigest()
            events.append(
                Event(**{**raw, "asked": self._fetched(raw["asked"]), "answered": self._fetched(raw["answered"])})
            )
        return events


def read_config(folder: Path) -> dict[str, Any]:
    """How the run in this directory was set up. Raises DatasetError."""
    path = folder / CONFIG
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path} cannot be read, so {folder} is no run directory: {error}") from error
    return found


def write_atomically(path: Path, text: str) -> None:
    """All of it or nothing, whenever the process dies."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
