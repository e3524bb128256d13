"""The dispatcher's process: one thread for each device of this host, or for each place on a Ray cluster."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kernelmill.dataset.paths import default_path
from kernelmill.evaluator.executors import Executor, LocalExecutor, RayExecutor, Unit
from kernelmill.evaluator.executors.base import Seen, Stop
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.evaluator.runner import Event
from kernelmill.leaderboard import log
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.dispatcher import Dispatcher
from kernelmill.leaderboard.lifeline import end_with_parent
from kernelmill.leaderboard.settings import Settings
from kernelmill.leaderboard.spool import Spool
from kernelmill.trace_schema.errors import InternalError

_log = logging.getLogger("kernelmill.dispatch")
Opener = Callable[[], Executor]


class Shared:
    """One connection to a cluster for several threads: none of them closes it for the others."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    @property
    def seen(self) -> Seen:
        return self._executor.seen

    @property
    def share(self) -> int:
        return 1

    def run(self, units: Sequence[Unit], stop: Stop | None = None) -> Iterator[Event]:
        return self._executor.run(units, stop)

    def close(self) -> None:
        """Its process's end closes it."""


def main() -> None:
    settings = Settings()
    log.set_up(settings.log_level)
    end_with_parent()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        dispatch(settings, openers(settings), stop)
    except InternalError as error:
        _log.error("cannot judge here: %s", error)
        sys.exit(1)


def openers(settings: Settings) -> dict[str, Opener]:
    """What opens an executor, by the name of its place. Raises InternalError."""
    from kernelmill.evaluator.devices import device_names

    options = JudgeOptions()
    if settings.executor == "ray":
        cluster = Shared(RayExecutor(settings.device, options, address=settings.ray_address))
        return {f"ray-{number}": lambda: cluster for number in range(max(1, cluster._executor.share))}
    return {
        name.replace(":", "-"): lambda name=name: LocalExecutor([name], options)  # type: ignore[misc]
        for name in device_names(settings.device)
    }


def dispatch(settings: Settings, places: dict[str, Opener], stop: threading.Event) -> None:
    """Runs until `stop`; the first thread that fails ends them all, and its error is raised."""
    database = Database(settings.url)
    host, failed = socket.gethostname(), []
    blobs = _blobs()

    def work(place: str, opener: Opener) -> None:
        spool = Spool(settings.spool_folder / f"{host}-{place}", blobs)
        holder = f"{host}/{place}/{os.getpid()}"
        dispatcher = Dispatcher(database, opener, spool, holder, lease_s=settings.lease_s, attempts=settings.attempts)
        try:
            dispatcher.run(stop)
        except InternalError as error:
            failed.append(error)
            stop.set()

    threads = [threading.Thread(target=work, args=item) for item in places.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    database.close()
    if failed:
        raise failed[0]


def _blobs() -> Path | None:
    path = default_path()
    return path.resolve() if path.is_dir() else None


if __name__ == "__main__":
    main()
