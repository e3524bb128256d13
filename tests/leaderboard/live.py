"""A service at a real port: uvicorn in a thread of this process."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from kernelmill.evaluator import JudgeOptions
from kernelmill.evaluator.executors import LocalExecutor
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.dispatcher import Dispatcher
from kernelmill.leaderboard.spool import Spool
from tests.leaderboard.world import World

SCRIPTED = "tests.leaderboard.scripted_owner"
START_S = 30.0


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """Its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_config=None, ws="none", timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    deadline = time.monotonic() + START_S
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        assert server.started, "the server did not start"
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(START_S)
        listener.close()


@contextmanager
def judging(world: World, database: Database) -> Iterator[None]:
    """A dispatcher in a thread, over an owner that opens no device."""
    stop = threading.Event()
    dispatcher = Dispatcher(
        database,
        lambda: LocalExecutor(["cpu"], JudgeOptions(), owner=SCRIPTED),
        Spool(world.folder / "spool", None),
        "test",
        attempts=1,
    )
    thread = threading.Thread(target=dispatcher.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(START_S)
        assert not thread.is_alive()
