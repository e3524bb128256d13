"""A whole service in processes of its own, any of which can be killed: database, API, dispatchers and their owners."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx2
import psutil

from kernelmill.dataset import Dataset
from kernelmill.leaderboard import catalog, serve, tokens
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.db.migrate import migrate
from kernelmill.leaderboard.settings import Settings
from tests.leaderboard.postgres import Postgres

BOOT = (
    f"import sys; sys.path.insert(0, {str(serve.ROOT)!r}); from importlib import import_module; "
    "import_module(sys.argv.pop(1)).main()"
)
PATIENCE_S = 240.0


class Rig:
    """`places` names the dispatchers; `dispatcher` is the module that each of them runs."""

    def __init__(
        self, postgres: Postgres, name: str, dataset: Path, folder: Path, dispatcher: str, places: list[str]
    ) -> None:
        self.postgres = postgres
        postgres.sql(f"create database {name}")
        self.settings = Settings(
            state=folder / "state",
            database_url=postgres.url(name),
            lease_s=2.0,
            attempts=50,
            quota_per_hour=100_000,
            write_rate="100000/second",
            read_rate="100000/second",
            log_level="warning",
        )
        with self.opened() as database:
            migrate(database)
            with database.write() as connection:
                catalog.sync(connection, Dataset.open(dataset), by="test")
                author = tokens.ensure_author(connection, "alice")
                token = tokens.create(connection, author, [tokens.Scope.SUBMIT, tokens.Scope.READ], None, by="test")
        self._headers = {"Authorization": f"Bearer {token}"}
        self._listener = serve.bind("127.0.0.1", 0)
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        fd = self._listener.fileno()
        self._children = [serve.Child("api", "kernelmill.leaderboard.api.__main__", [str(fd)], [fd])]
        self._children += [serve.Child(place, dispatcher) for place in places]
        self._env = {**os.environ, **serve.environment(self.settings)}
        self._stop = threading.Event()
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self.kills = 0

    def start(self) -> None:
        self._keeper.start()

    def close(self) -> None:
        self._stop.set()
        self._keeper.join()
        serve.end([child.process for child in self._children if child.process is not None])
        self._listener.close()

    def opened(self) -> closing[Database]:
        """Opened for one look: a pool would keep connections to a server that is killed."""
        return closing(Database(self.settings.url))

    def submit(self, body: dict[str, Any], key: str) -> str:
        """Until it is acknowledged, with the same key: an answer may get lost, its effect may not."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with suppress(httpx2.TransportError):
                headers = {**self._headers, "Idempotency-Key": key}
                reply = httpx2.post(f"{self.address}/api/v1/submissions", json=body, headers=headers, timeout=10)
                if reply.status_code == 202:
                    return str(reply.json()["id"])
                assert reply.status_code == 503, reply.text
            time.sleep(0.05)
        raise AssertionError("never acknowledged")

    def kill_something(self, dice: random.Random) -> str:
        """SIGKILL to one of the processes that there are: an API, a dispatcher, an owner, or all of the database."""
        self.kills += 1
        choice = dice.choice(["api", "dispatcher", "owner", "database"])
        if choice == "database":
            self.postgres.kill()
            time.sleep(dice.uniform(0, 0.5))
            self.postgres.start(durable=True)
            return choice
        kind = self._children[:1] if choice == "api" else self._children[1:]
        victim = dice.choice(kind).process
        if victim is not None:
            with suppress(psutil.NoSuchProcess):
                process = psutil.Process(victim.pid)
                owners = process.children() if choice == "owner" else [process]
                for each in owners[:1]:
                    each.kill()
        return choice

    def wait(self, what: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if what():
                return
            time.sleep(0.2)
        raise AssertionError("it did not happen in time")

    def _keep(self) -> None:
        """What a supervisor does, without its pauses."""
        while not self._stop.wait(0.05):
            for child in self._children:
                if child.process is None or child.process.poll() is not None:
                    self._start(child)

    def _start(self, child: serve.Child) -> None:
        env = self._env if child.name == "api" else {**self._env, "KERNELMILL_DEVICE": child.name}
        if child.process is not None:
            serve.bury(child.process)
        child.process = subprocess.Popen(
            [sys.executable, "-P", "-c", BOOT, child.module, *child.arguments],
            stdin=subprocess.PIPE,
            env=env,
            pass_fds=child.fds,
        )
