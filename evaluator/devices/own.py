"""The lock that makes one process the only judge on a device."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from kernelmill.dataset.paths import default_cache
from kernelmill.trace_schema.errors import InternalError


class Owned(InternalError):
    """Another judge has it."""


def own(name: str) -> int:
    """Take the lock that says: this device is mine. It goes with the process. Raises Owned."""
    folder = Path(default_cache()) / "devices"
    folder.mkdir(parents=True, exist_ok=True)
    fd = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise Owned(
            f"{name} is being used by another judge; wait for it, or find it with: fuser {folder / name}.lock"
        ) from None
    return fd
