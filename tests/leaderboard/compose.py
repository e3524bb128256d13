"""docker-compose.yml without Docker: read, interpolated, and its command lines run as processes of this host.

A service gets the environment that the file gives it and no other, the confinement that can be had without a
container (`contained`), nothing at stdin, and folders of its own for its volumes. Root file system and network are the
host's.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import yaml

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docker-compose.yml"
DOCKERFILE = ROOT / "Dockerfile"
MARK = "KERNELMILL_TEST_STACK"
"""Environment variable by which a stack's processes are known, whoever their parent is by now."""
VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?::([-?])([^}]*))?\})")
END_S = 20.0


class Unset(Exception):
    """A variable that must be set; the text is the file's."""


def raw() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return found


def interpolate(value: Any, variables: Mapping[str, str]) -> Any:
    """As Compose does: `${X}`, `${X:-default}`, `${X:?message}`, `$$`. Raises Unset."""
    if isinstance(value, dict):
        return {key: interpolate(each, variables) for key, each in value.items()}
    if isinstance(value, list):
        return [interpolate(each, variables) for each in value]
    if not isinstance(value, str):
        return value

    def one(found: re.Match[str]) -> str:
        name, kind, text = found.groups()
        if name is None:
            return "$"
        if variables.get(name):
            return variables[name]
        if kind == "?":
            raise Unset(text)
        return text or ""

    return VARIABLE.sub(one, value)


def image_environment() -> dict[str, str]:
    return dict(re.findall(r"(KERNELMILL_\w+)=(\S+)", DOCKERFILE.read_text()))


def order(services: Mapping[str, Any]) -> Iterator[str]:
    """Each after those that it waits for."""
    done: list[str] = []
    while len(done) < len(services):
        left = [name for name in services if name not in done]
        ready = [name for name in left if set(waits_for(services[name])) <= set(done)]
        assert ready, f"these wait for each other, or for one that is not there: {left}"
        done.append(ready[0])
    yield from done


def waits_for(service: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = service.get("depends_on", {})
    return found


class Stack:
    """Processes of one copy of the file. `swaps` replaces names and ports that are taken or not to be had here."""

    def __init__(self, variables: Mapping[str, str], swaps: Mapping[str, str]) -> None:
        self.variables = dict(variables)
        self.swaps = swaps
        self.folder = Path(tempfile.mkdtemp(prefix="km-"))  # short: the path of a socket has 107 bytes at most
        self.services: dict[str, Any] = interpolate(raw(), variables)["services"]
        self._mark = secrets.token_hex(8)
        self._started: list[subprocess.Popen[bytes]] = []
        self._tools()

    def _tools(self) -> None:
        """What the image has on its PATH."""
        (self.folder / "bin").mkdir()
        own = self.folder / "bin" / "kernelmill"
        own.write_text(f'#!/bin/sh\nexec {sys.executable} -m kernelmill "$@"\n')
        own.chmod(0o755)
        for name in ("ray", "python"):
            tool = Path(sys.executable).parent / name
            (self.folder / "bin" / name).write_text(f'#!/bin/sh\nexec {tool} "$@"\n')
            (self.folder / "bin" / name).chmod(0o755)

    def mounts(self, name: str) -> dict[str, Path]:
        """Path inside -> folder here, the longest first."""
        service, found = self.services[name], dict[str, Path]()
        for target in service.get("tmpfs", ()):
            found[target] = self.folder / "tmpfs" / name / target.strip("/")
        for volume in service.get("volumes", ()):
            source, target = volume.split(":")[:2]
            found[target] = (ROOT / source) if source.startswith((".", "/")) else self.folder / "volumes" / source
        found.pop("/tmp", None)
        for path in found.values():
            path.mkdir(parents=True, exist_ok=True)
        return dict(sorted(found.items(), key=lambda each: -len(each[0])))

    def inside(self, name: str, path: str) -> Path:
        """A path of the service, here."""
        for target, folder in self.mounts(name).items():
            if path == target or path.startswith(f"{target}/"):
                return folder / path.removeprefix(target).lstrip("/")
        return Path(path)

    def environment(self, name: str) -> dict[str, str]:
        told = {**image_environment(), **self.services[name].get("environment", {})}
        told = {key: self.variables.get(key) if value is None else value for key, value in told.items()}
        env = {key: self._swapped(str(self.inside(name, value))) for key, value in told.items() if value is not None}
        for key, value in told.items():
            if value is not None and "://" in value:
                env[key] = self._swapped(value)
        host = {"PATH": f"{self.folder / 'bin'}:/usr/local/bin:/usr/bin:/bin", "HOME": str(self.folder)}
        return {**host, "PYTHONPATH": str(ROOT), "RAY_TMPDIR": str(self.folder), MARK: self._mark, **env}

    def command(self, name: str, argv: list[str] | None = None) -> list[str]:
        """With the confinement that the file asks for. `argv`: another command in the same place."""
        profiles = [option[8:] for option in self.services[name]["security_opt"] if option.startswith("seccomp:")]
        profile = str(ROOT / profiles[0]) if profiles else ""
        confined = [sys.executable, "-m", "tests.leaderboard.contained", profile]
        return [*confined, *map(self._swapped, argv or self.services[name]["command"])]

    def run(self, name: str, argv: list[str] | None = None, *, timeout_s: float, **env: str) -> tuple[int, str]:
        """To its end; its exit code and what it said."""
        done = subprocess.run(
            self.command(name, argv),
            env={**self.environment(name), **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
            cwd=self.folder,
        )
        return done.returncode, done.stdout

    def start(self, name: str) -> subprocess.Popen[bytes]:
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                self.command(name),
                env=self.environment(name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def health(self, name: str) -> bool:
        """The file's own health check."""
        kind, *argv = self.services[name]["healthcheck"]["test"]
        assert kind == "CMD"
        return self.run(name, argv, timeout_s=60)[0] == 0

    def until(self, name: str, ready: Callable[[], bool], process: subprocess.Popen[bytes], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not ready():
            text = self.log(name).read_text()[-4000:]
            assert process.poll() is None, f"{name} ended with {process.returncode}:\n{text}"
            assert time.monotonic() < deadline, f"{name} is not ready:\n{text}"
            time.sleep(0.3)

    def close(self) -> None:
        """Everything that was started here, and what that started."""
        found = {each.pid: each for each in self._own()}
        for process in list(found.values()):
            with suppress(psutil.NoSuchProcess):
                found |= {child.pid: child for child in process.children(recursive=True)}
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in found.values():
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(number)
            psutil.wait_procs(list(found.values()), timeout=END_S)
        for started in self._started:
            started.wait(END_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _own(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.pid != os.getpid() and process.environ().get(MARK) == self._mark:
                    yield process

    def _swapped(self, text: str) -> str:
        for name, other in self.swaps.items():
            text = text.replace(name, other)
        return text
