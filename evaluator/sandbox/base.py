"""What a sandbox is asked for, and what comes back."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from kernelmill.evaluator.sandbox.tree import Tree

MIB = 1 << 20
EXIT_S = 1.0
TRUNCATED = "\n[output truncated]\n"
UNUSUAL = re.compile(r"[^\n\t -~]")


def plain(text: str) -> str:
    """Foreign text, with what is neither printable nor a line's end or a tab written as an escape.

    A NUL has no place in a database, a lone surrogate none in UTF-8, and an escape sequence none on a terminal.
    """
    return UNUSUAL.sub(lambda found: found[0] if found[0].isprintable() else ascii(found[0])[1:-1], text)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one sandboxed command may use."""

    memory_bytes: int = 8 << 30
    processes: int = 512
    scratch_bytes: int = 1 << 30
    """Size of /tmp; /dev/shm gets the same."""
    cpu_s: int | None = None
    output_bytes: int = MIB
    """stdout and stderr together; a command that writes more is killed."""


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Mount:
    """A host path shown inside the sandbox, read-only unless said otherwise."""

    source: Path
    target: str
    writable: bool = False


class Completed(NamedTuple):
    """A finished command. `limit` names what it hit: "memory", "pids", "log", else "time" or None.

    A fork bomb that holds on at its limit until its time is up hit "pids": the cause, not the symptom.
    """

    returncode: int
    output: str
    timed_out: bool
    limit: str | None


class Sandbox(Protocol):
    """A way to run foreign code."""

    kind: str

    def inside(self, mount: Mount) -> str:
        """The path of `mount` as the sandboxed command sees it."""

    def python(self, module: str) -> list[str]:
        """The command that runs one of our own modules inside, as `__main__`."""

    def spawn(
        self,
        argv: Sequence[str],
        *,
        mounts: Sequence[Mount] = (),
        env: Mapping[str, str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        fds: Sequence[int] = (),
        stdin: bytes = b"",
    ) -> Process: ...

    def run(
        self,
        argv: Sequence[str],
        *,
        mounts: Sequence[Mount] = (),
        env: Mapping[str, str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        timeout_s: float,
        stdin: bytes = b"",
    ) -> Completed: ...


class Process:
    """A running sandboxed command: its tree, and its stdout and stderr as capped data."""

    def __init__(self, popen: subprocess.Popen[bytes], tree: Tree, limits: Limits) -> None:
        assert popen.stdout is not None
        self.popen = popen
        self.tree = tree
        self._limits = limits
        self._log = bytearray()
        self._written = 0
        self.stdout = popen.stdout
        os.set_blocking(self.stdout.fileno(), False)

    def drain(self) -> None:
        """Read what has been written so far; never blocks, keeps at most the cap."""
        while self._written <= self._limits.output_bytes:
            try:
                chunk = self.stdout.read(65536)
            except ValueError:  # closed
                return
            if not chunk:
                return
            self._written += len(chunk)
            self._log += chunk[: max(0, self._limits.output_bytes - len(self._log))]

    @property
    def flooded(self) -> bool:
        return self._written > self._limits.output_bytes

    @property
    def log(self) -> str:
        text = plain(self._log.decode("utf-8", "replace"))
        return text + TRUNCATED if self.flooded else text

    def limit_hit(self) -> str | None:
        """Which limit was hit so far: "log", "memory", "pids" or None."""
        return "log" if self.flooded else self.tree.limit_hit()

    def finish(self, timeout_s: float) -> Completed:
        """Wait for the end, within a deadline; kill the whole tree whatever happens."""
        deadline = time.monotonic() + timeout_s
        timed_out = False
        with selectors.DefaultSelector() as selector:
            selector.register(self.stdout, selectors.EVENT_READ)
            while self.popen.poll() is None and not self.flooded:
                if time.monotonic() > deadline:
                    timed_out = True
                    break
                selector.select(0.05)
                self.drain()
        self.drain()
        limit = self.limit_hit()
        returncode = self.close()
        return Completed(returncode, self.log, timed_out, limit or ("time" if timed_out else None))

    def exit_code(self) -> int:
        """Of a command that has hung up: its own code if it ends within a moment, else that of being killed."""
        self.tree.thaw()
        try:
            return self.popen.wait(timeout=EXIT_S)
        except subprocess.TimeoutExpired:
            return self.close()

    def close(self) -> int:
        """Kill every process of the tree and forget it. Safe to call twice."""
        if not self.stdout.closed:
            self.popen.kill()  # it may not have entered its group yet
            self.tree.kill()
            self.tree.thaw()  # a tree frozen by signals dies only once it runs again
            self.popen.wait(timeout=30)
            self.drain()
            self.stdout.close()
            self.tree.close()
        return self.popen.wait(timeout=30)


def base_env(extra: Mapping[str, str] | None) -> dict[str, str]:
    """The environment of foreign code: a fixed list, never ours."""
    cores = str(len(os.sched_getaffinity(0)))
    return {
        "PATH": f"{sys.prefix}/bin:/usr/local/cuda/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/tmp",
        "TMPDIR": "/tmp",
        "USER": "nobody",
        "LOGNAME": "nobody",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": cores,
        "OMP_WAIT_POLICY": "passive",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TRITON_CACHE_DIR": "/tmp/triton",
        "TORCHINDUCTOR_CACHE_DIR": "/tmp/inductor",
        **(extra or {}),
    }


def run_module(runtime: str, module: str) -> list[str]:
    """Isolated Python: no user site, no PYTHON* variables, no current directory; our own code comes from `runtime`."""
    start = f"import sys,runpy; sys.path.insert(0,{runtime!r}); runpy.run_module({module!r}, run_name='__main__')"
    return [sys.executable, "-I", "-B", "-c", start]
