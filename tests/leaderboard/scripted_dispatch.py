"""A dispatcher's process whose owner runs nothing: `main` of `leaderboard.dispatch` with another owner."""

from __future__ import annotations

import signal
import threading

from kernelmill.evaluator.executors import LocalExecutor
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.leaderboard import log
from kernelmill.leaderboard.dispatch import dispatch
from kernelmill.leaderboard.lifeline import end_with_parent
from kernelmill.leaderboard.settings import Settings

OWNER = "tests.leaderboard.scripted_owner"


def main() -> None:
    settings = Settings()
    log.set_up(settings.log_level)
    end_with_parent()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    dispatch(settings, {settings.device: lambda: LocalExecutor(["cpu"], JudgeOptions(), owner=OWNER)}, stop)
