"""When tracing writes: now and then from a thread of its own, at the process's end, and before SIGTERM ends it.

- The thread starts with the first call of a process, so that a fork gets its own, and keeps no process alive.
- The end waits for it, but not longer than the deadline.
- A signal handler is put in place only where the process has none of its own: SIGTERM then does what it did before,
  once what is known is written. Off the main thread, where Python allows no handler, the thread alone has to do.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
from collections.abc import Callable
from typing import Any


class Writer:
    """Calls `write(is_last)` from its thread."""

    def __init__(self, write: Callable[[bool], None], every_s: float, deadline_s: float) -> None:
        self._write, self._every_s, self._deadline_s = write, every_s, deadline_s
        self._process = os.getpid()
        # SimpleQueue may be used in a signal handler; a lock or an Event may not.
        self._asked: queue.SimpleQueue[tuple[bool, queue.SimpleQueue[None]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._finalizer: Any = None

    def start(self) -> None:
        """Costs next to nothing where the thread runs. Two threads that come first at once may start two, which take
        turns."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="kernelmill tracing", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is shutting down
                return
            self._thread = thread
            self._at_exit()

    def write(self, *, is_last: bool = False) -> bool:
        """Waits until all calls up to now are written. False where that took longer than the deadline."""
        if self._thread is None or self._process != os.getpid():
            return True
        done: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._asked.put((is_last, done))
        try:
            done.get(timeout=self._deadline_s)
        except queue.Empty:
            return False
        return True

    def stop(self) -> bool:
        """Writes for the last time."""
        written = self.write(is_last=True)
        if self._finalizer is not None:
            self._finalizer.cancel()
            self._finalizer = None
        _terminated.pop(id(self), None)
        if not _terminated and _may_handle() and signal.getsignal(signal.SIGTERM) is _terminate:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._thread = None
        return written

    def forget(self) -> None:
        """In a forked child: the thread is the parent's, and so is what it was asked."""
        self._process, self._thread, self._finalizer = os.getpid(), None, None
        self._asked = queue.SimpleQueue()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            done = None
            with contextlib.suppress(queue.Empty):
                is_last, done = self._asked.get(timeout=self._every_s)
            self._write(is_last)
            if done is not None:
                done.put(None)

    def _at_exit(self) -> None:
        """multiprocessing runs its finalizers where atexit is skipped: at the end of a forked worker."""
        from multiprocessing.util import Finalize

        self._finalizer = Finalize(None, self.stop, exitpriority=0)
        _terminated[id(self)] = self
        if _may_handle() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _terminate)


_terminated: dict[int, Writer] = {}
"""What is to be written before SIGTERM ends the process."""


def _may_handle() -> bool:
    return threading.current_thread() is threading.main_thread()


def _terminate(number: int, _: object) -> None:
    for writer in list(_terminated.values()):
        writer.write(is_last=True)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
