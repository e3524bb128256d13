"""The service as a process of its own, and a database server to go with it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

from kernelmill.leaderboard import serve
from kernelmill.leaderboard.settings import Settings
from tests.leaderboard.postgres import Postgres

HOST = "127.0.0.1"
START_S = 60.0
UNLIMITED = 1_000_000_000


class Server:
    """The API's process on a port of its own. Its log goes to a file in `folder`."""

    def __init__(self, url: str, folder: Path) -> None:
        self._settings = Settings(
            state=folder,
            database_url=url,
            executor="none",
            read_rate="10000/second",
            write_rate="10000/second",
            quota_per_hour=UNLIMITED,
        )
        self._listener = serve.bind(HOST, 0)
        self.port: int = self._listener.getsockname()[1]
        self._log = (folder / "log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers."""
        fd = self._listener.fileno()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kernelmill.leaderboard.api", str(fd)],
            cwd=serve.ROOT,
            stdin=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **serve.environment(self._settings)},
            pass_fds=[fd],
        )
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            try:
                if self.get("/readyz") == 200:
                    return
            except OSError:
                time.sleep(0.05)
        raise TimeoutError(f"the service did not answer within {START_S} s; see {self._log.name}")

    def get(self, path: str) -> int:
        connection = HTTPConnection(HOST, self.port, timeout=10)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        finally:
            connection.close()

    def kill(self) -> None:
        """Without a word, as a host's failure would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        if self._process is not None:
            serve.end([self._process])
        self._listener.close()
        self._log.close()


@contextmanager
def serving(url: str) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="kernelmill-service-") as folder:
        server = Server(url, Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.close()


@contextmanager
def empty_database(kind: str) -> Iterator[str]:
    """The URL of a new one, which is gone afterwards."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="kernelmill-service-") as folder:
            yield f"sqlite:///{folder}/kernelmill.db"
        return
    postgres = Postgres()
    try:
        postgres.start(durable=True)
        postgres.sql("create database kernelmill")
        yield postgres.url("kernelmill")
    finally:
        postgres.close()
