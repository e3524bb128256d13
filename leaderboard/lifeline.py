"""A child's tie to its parent: the parent holds the other end of stdin, and its end is the child's."""

from __future__ import annotations

import os
import threading


def end_with_parent() -> None:
    """However the parent ends, SIGKILL included, this process ends, too."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
