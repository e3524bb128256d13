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
    """The API's processes, which share a port. Their log goes to a file in `folder`."""

    def __init__(self, url: str, folder: Path, workers: int) -> None:
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
        self._workers = workers
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Returns when it answers."""
        self.processes = [self._process() for _ in range(self._workers)]
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            try:
                if self.get("/readyz") == 200:
                    return
            except OSError:
                time.sleep(0.05)
        raise TimeoutError(f"the service did not answer within {START_S} s; see {self._log.name}")

    def _process(self) -> subprocess.Popen[bytes]:
        fd = self._listener.fileno()
        return subprocess.Popen(
            [sys.executable, "-m", "kernelmill.leaderboard.api", str(fd)],
            cwd=serve.ROOT,
            stdin=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **serve.environment(self._settings)},
            pass_fds=[fd],
        )

    def get(self, path: str) -> int:
        connection = HTTPConnection(HOST, self.port, timeout=10)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        finally:
            connection.close()

    def kill(self) -> None:
        """Without a word, as a host's failure would."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            serve.bury(process)

    def close(self) -> None:
        serve.end(self.processes)
        self._listener.close()
        self._log.close()


@contextmanager
def serving(url: str, workers: int = 1) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="kernelmill-service-") as folder:
        server = Server(url, Path(folder), workers)
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
