"""The parent's side of an owner: start it, order, read its lines, end it. Every wait has a deadline."""

from __future__ import annotations

import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import kernelmill
from kernelmill.evaluator.executors.base import SILENCE_S, START_S, Charge, Message, Seen, Unit
from kernelmill.trace_schema.errors import InternalError

ROOT = Path(kernelmill.__file__).parents[1]
OWNER = "kernelmill.evaluator.executors.owner"
BOOT = (
    f"import sys; sys.path.insert(0, {str(ROOT)!r}); from importlib import import_module;"
    "import_module(sys.argv[1]).main()"
)
CHUNK = 1 << 16
END_S = 10.0
"""How long an owner that was told to end may take before it is killed."""


class OwnerLost(InternalError):
    """The owner ended, hung or spoke nonsense."""


class OwnerProcess:
    """One child and the device that it alone uses. `owner` is the module whose `main` it runs."""

    def __init__(
        self,
        charge: Charge,
        *,
        owner: str = OWNER,
        silence_s: float = SILENCE_S,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.device = charge.device
        self.unit: Unit | None = None
        """What it works on."""
        self._silence_s = silence_s
        self._deadline = time.monotonic() + START_S
        self._text = b""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", BOOT, owner],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(env) if env is not None else None,
            start_new_session=True,  # Ctrl-C is the parent's to handle
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._lines = self._process.stdin, self._process.stdout
        os.set_blocking(self._lines.fileno(), False)
        self._send(charge.to_json())

    def fileno(self) -> int:
        return self._lines.fileno()

    def ready(self) -> Seen:
        """Wait until its device is open. Raises InternalError, in the owner's words where it can't be opened."""
        message = next(self.messages())
        if message.seen is None:
            raise InternalError(message.text)
        return message.seen

    def order(self, do: str, unit: Unit) -> None:
        """An owner that has gone is noticed when it is read."""
        self.unit = unit
        self._deadline = time.monotonic() + self._silence_s
        self._send(json.dumps({"do": do, "unit": unit.to_json()}))

    def messages(self) -> Iterator[Message]:
        """What it says, as it comes. Raises OwnerLost."""
        while True:
            select.select([self], [], [], max(0.0, min(1.0, self._deadline - time.monotonic())))
            yield from self.read()

    def read(self) -> list[Message]:
        """What it has said by now; never waits. Raises OwnerLost, once all that it said before is read."""
        ended = self._fill()
        *lines, self._text = self._text.split(b"\n")
        if lines:
            self._deadline = time.monotonic() + self._silence_s
            return [self._parse(line) for line in lines]
        if ended:
            raise OwnerLost(f"the process that owns {self.device} was lost ({self._how()})")
        if time.monotonic() > self._deadline:
            self._process.kill()
            raise OwnerLost(f"the process that owns {self.device} said nothing within its deadline and was killed")
        return []

    def close(self) -> None:
        """Its end frees the device, and whatever it started. Safe to call twice."""
        if self._lines.closed:
            return
        with suppress(BrokenPipeError):
            self._orders.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(END_S)
        self._lines.close()

    def _send(self, line: str) -> None:
        with suppress(BrokenPipeError):
            self._orders.write(line.encode() + b"\n")
            self._orders.flush()

    def _fill(self) -> bool:
        """Take what has been written; whether it was the last."""
        while True:
            try:
                chunk = os.read(self.fileno(), CHUNK)
            except BlockingIOError:
                return False
            if not chunk:
                return True
            self._text += chunk

    def _parse(self, line: bytes) -> Message:
        try:
            message = Message.from_json(line)
        except (ValueError, KeyError, TypeError) as error:
            self._process.kill()
            raise OwnerLost(f"the process that owns {self.device} said {line[:200]!r}: {error}") from error
        if message.kind in ("ready", "done"):
            self.unit, self._deadline = None, math.inf
        return message

    def _how(self) -> str:
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return "it closed its output"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
