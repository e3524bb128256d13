"""`kernelmill serve`: one process tree. The parent holds the socket and the children's lives, and does nothing else.

A child that dies is started again, later each time. The socket stays bound meanwhile, so a client waits and is served.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import kernelmill
from kernelmill.leaderboard import tokens
from kernelmill.leaderboard.catalog import sync
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.db.migrate import migrate
from kernelmill.leaderboard.ingest import ingest
from kernelmill.leaderboard.settings import Settings, is_loopback
from kernelmill.trace_schema.errors import InternalError

ROOT = Path(kernelmill.__file__).parents[1]
BOOT = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from kernelmill.leaderboard.{{module}} import main; main()"
POLL_S = 0.2
END_S = 15.0
LONGEST_PAUSE_S = 30.0
_log = logging.getLogger("kernelmill.serve")


def check_exposure(host: str, settings: Settings) -> None:
    """Raises InternalError for an address beyond this host while nobody is asked who they are."""
    if not settings.auth and not is_loopback(host):
        raise InternalError(
            f"refusing to listen on {host} without auth: whoever reaches it could run code here; "
            "leave out --no-auth, or listen on 127.0.0.1"
        )


def prepare(database: Database, settings: Settings, dataset: Path | None) -> None:
    """Migrate, take in the dataset, and see to it that there is an administrator's token."""
    from kernelmill.dataset import Dataset

    migrate(database)
    opened = Dataset.open(dataset)
    with database.write() as connection:
        done = sync(connection, opened, by="serve")
    ingest(database, opened)
    if done.edition:
        _log.info("new edition", extra={"edition": done.edition, "definitions": done.definitions})
    if settings.auth:
        ensure_administrator(database, settings.state_folder)


def ensure_administrator(database: Database, folder: Path) -> None:
    """Where there is no valid administrator's token, make one and leave it in a file that only its owner can read."""
    path = folder / "admin-token"
    with database.write() as connection:
        if tokens.has_administrator(connection):
            return
        author = tokens.ensure_author(connection, "admin")
        token = tokens.create(connection, author, [tokens.Scope.ADMIN], None, by="serve")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as stream:
            stream.write(token + "\n")
    _log.warning("made an administrator's token", extra={"file": str(path)})


def bind(host: str, port: int) -> socket.socket:
    """Raises InternalError where the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Connections inherit it. asyncio sets it for sockets whose protocol it is told, which ours, passed on as a number,
    # are not; without it a reply's body waits 40 ms for the client to acknowledge its head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise InternalError(f"cannot listen on {host}:{port} ({error.strerror}); choose another --port") from error
    listener.listen(512)
    return listener


@dataclass(slots=True)
class Child:
    """A process that must live as long as the service."""

    name: str
    module: str
    arguments: Sequence[str] = ()
    fds: Sequence[int] = ()
    process: subprocess.Popen[bytes] | None = None
    begun: float = 0.0
    not_before: float = 0.0
    falls: int = field(default=0)

    def start(self, env: dict[str, str]) -> None:
        command = [sys.executable, "-P", "-c", BOOT.format(module=self.module), *self.arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, env=env, pass_fds=self.fds)
        self.begun = time.monotonic()

    def look(self, env: dict[str, str]) -> None:
        """Start it if it is down and its pause is over."""
        if self.process is not None and self.process.poll() is None:
            return
        if self.process is not None:
            lasted = time.monotonic() - self.begun
            self.falls = 1 if lasted > 60 else self.falls + 1
            pause = min(LONGEST_PAUSE_S, 0.5 * 2 ** (self.falls - 1))
            _log.error("a process ended", extra={"child": self.name, "code": self.process.returncode, "pause_s": pause})
            bury(self.process)
            self.process, self.not_before = None, time.monotonic() + pause
        if time.monotonic() >= self.not_before:
            self.start(env)


def run(children: Sequence[Child], settings: Settings, tell: Callable[[], None]) -> None:
    """Until SIGTERM or Ctrl-C; then everything ends, killed if need be."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    env = {**os.environ, **environment(settings)}
    for child in children:
        child.start(env)
    tell()
    while not stop.wait(POLL_S):
        for child in children:
            child.look(env)
    end([child.process for child in children if child.process is not None])


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + END_S
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.1, deadline - time.monotonic()))
        process.kill()
        bury(process)


def bury(process: subprocess.Popen[bytes]) -> None:
    """Of one that has ended, or was killed: nothing of it is left with us."""
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


def environment(settings: Settings) -> dict[str, str]:
    """The settings as a child reads them."""
    found = {}
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        plain = value.get_secret_value() if hasattr(value, "get_secret_value") else value
        if plain is not None:
            found[f"KERNELMILL_{name.upper()}"] = str(plain)
    return found
