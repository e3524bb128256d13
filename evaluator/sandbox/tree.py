"""A process tree that can be frozen, thawed, counted and killed as one.

`Cgroup` does it atomically in a control group (v2 for freeze and kill, v1 or v2 for limits). `SignalTree` does it by
SIGSTOP where the host gives no writable control group: slower, and complete because an orphan inside a PID namespace
is re-parented to the namespace's own init, which is a descendant too.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from kernelmill.trace_schema.errors import InternalError

FREEZE_DEADLINE_S = 5.0


class Tree(Protocol):
    """Everything that one spawned command has started."""

    kind: str

    def freeze(self) -> None: ...
    def thaw(self) -> None: ...
    def kill(self) -> None: ...
    def cpu_s(self) -> float: ...
    def limit_hit(self) -> str | None: ...
    def close(self) -> None: ...


def _until(done: object, what: str) -> None:
    deadline = time.monotonic() + FREEZE_DEADLINE_S
    while not done():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise InternalError(f"{what} did not happen within {FREEZE_DEADLINE_S:g} s; kill it and run again")


class Cgroup:
    """One control group a process tree, below the group this process is in."""

    kind = "cgroup"

    def __init__(self, v2: Path, limits: dict[str, Path]) -> None:
        self._v2 = v2
        self._limits = limits
        self._freeze = os.open(v2 / "cgroup.freeze", os.O_WRONLY)
        self._events = os.open(v2 / "cgroup.events", os.O_RDONLY)

    @property
    def entries(self) -> list[Path]:
        """The files into which a process writes "0" to enter."""
        return [directory / "cgroup.procs" for directory in {self._v2, *self._limits.values()}]

    def _frozen(self) -> bool:
        return b"frozen 1" in os.pread(self._events, 256, 0)

    def freeze(self) -> None:
        os.pwrite(self._freeze, b"1", 0)
        _until(self._frozen, f"freezing {self._v2}")

    def thaw(self) -> None:
        os.pwrite(self._freeze, b"0", 0)

    def kill(self) -> None:
        (self._v2 / "cgroup.kill").write_text("1")

    def cpu_s(self) -> float:
        first = (self._v2 / "cpu.stat").read_text().split("\n", 1)[0]
        return int(first.split()[1]) / 1e6

    def limit_hit(self) -> str | None:
        """Which limit the kernel enforced in this group so far: "memory", "pids" or None."""
        for name, text in self._events_text():
            counts = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
            if int(counts.get("oom_kill", 0)) or (int(counts.get("max", 0)) and name == "pids"):
                return name
        return None

    def _events_text(self) -> Iterator[tuple[str, str]]:
        for name, directory in self._limits.items():
            for file in (f"{name}.events", "memory.oom_control") if name == "memory" else (f"{name}.events",):
                if (directory / file).exists():
                    yield name, (directory / file).read_text()

    def close(self) -> None:
        os.close(self._freeze)
        os.close(self._events)
        for directory in {self._v2, *self._limits.values()}:
            _remove(directory)


def _remove(directory: Path) -> None:
    """A group empties a moment after its last process died."""
    deadline = time.monotonic() + FREEZE_DEADLINE_S
    while directory.exists():
        try:
            directory.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise InternalError(f"control group {directory} does not empty; see {directory}/cgroup.procs") from None
            time.sleep(0.005)


class SignalTree:
    """A process and its descendants, stopped and continued by signals."""

    kind = "signals"

    def __init__(self, root_pid: int) -> None:
        self._root = root_pid

    def _members(self) -> list[int]:
        found, todo = [], [self._root]
        while todo:
            pid = todo.pop()
            found.append(pid)
            todo += _children(pid)
        return found

    def freeze(self) -> None:
        """Stop every member; look again until two looks agree, since a member may have forked meanwhile."""
        seen: list[int] = []
        deadline = time.monotonic() + FREEZE_DEADLINE_S
        while True:
            members = self._members()
            for pid in members:
                _signal(pid, signal.SIGSTOP)
            if members == seen and all(_stopped(pid) for pid in members):
                return
            if time.monotonic() > deadline:
                raise InternalError(f"process tree {self._root} does not stop; kill it and run again")
            seen = members

    def thaw(self) -> None:
        for pid in reversed(self._members()):
            _signal(pid, signal.SIGCONT)

    def kill(self) -> None:
        for pid in self._members():
            _signal(pid, signal.SIGKILL)

    def cpu_s(self) -> float:
        return sum(_cpu_s(pid) for pid in self._members())

    def limit_hit(self) -> str | None:
        return None

    def close(self) -> None:
        self.kill()


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    except OSError:  # it died while we looked
        return found
    return found


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ["X"] + ["0"] * 40


def _stopped(pid: int) -> bool:
    return _stat(pid)[0] in "TtZX"


def _cpu_s(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


PREFIX = "kernelmill"


def open_cgroup(name: str, *, memory_bytes: int, processes: int, owner: int | None = None) -> Cgroup | None:
    """A fresh control group with limits, or None where this host lets us have none. `owner` is the judge's pid."""
    mounts = _cgroup_mounts()
    name = f"{PREFIX}-{owner or os.getpid()}-{name}"
    v2 = _make(mounts.get("", None), name)
    if v2 is None or not (v2 / "cgroup.freeze").exists() or not (v2 / "cgroup.kill").exists():
        return None
    limits: dict[str, Path] = {}
    for controller, files, value in (
        ("memory", ("memory.max", "memory.limit_in_bytes"), memory_bytes),
        ("pids", ("pids.max",), processes),
    ):
        directory = v2 if (v2 / files[0]).exists() else _make(mounts.get(controller), name)
        for file in files:
            if directory is not None and (directory / file).exists():
                (directory / file).write_text(str(value))
                limits[controller] = directory
    return Cgroup(v2, limits)


def sweep(older_than_s: float = 60.0) -> None:
    """Remove what a judge left behind that was killed before it could. Its workers died with it."""
    for parent in set(_cgroup_mounts().values()):
        for directory in parent.glob(f"{PREFIX}-*-*"):
            owner = directory.name.split("-")[1]
            with suppress(OSError):  # in use after all, or swept by another judge
                if not Path(f"/proc/{owner}").exists() and time.time() - directory.stat().st_ctime > older_than_s:
                    directory.rmdir()


def _make(parent: Path | None, name: str) -> Path | None:
    if parent is None:
        return None
    directory = parent / name
    try:
        directory.mkdir()
        with (directory / "cgroup.procs").open("w"):
            return directory
    except OSError:
        return None


def _cgroup_mounts() -> dict[str, Path]:
    """Controller name ("" is v2) -> the directory of the group that this process is in."""
    own: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        own.update(dict.fromkeys(controllers.split(","), path))
    found: dict[str, Path] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, after = line.split(" - ")
        fstype, _, options = after.split()[:3]
        if fstype not in ("cgroup", "cgroup2"):
            continue
        root, point = before.split()[3:5]
        for controller in [""] if fstype == "cgroup2" else options.split(","):
            if controller in own:
                relative = own[controller].removeprefix(root.rstrip("/")).lstrip("/")
                found[controller] = Path(point) / relative
    return found
