"""A child's tie to its parent: the parent holds the other end of stdin, and its end is the child's."""

from __future__ import annotations

import os
import stat
import threading


def end_with_parent() -> None:
    """However the parent ends, SIGKILL included, this process ends, too.

    Only a pipe has another end: /dev/null, which containers and units give, would be read to its end at once.
    """
    if not stat.S_ISFIFO(os.fstat(0).st_mode):
        return

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
