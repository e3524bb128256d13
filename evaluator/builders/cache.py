"""The content-addressed store of built artifacts: `<root>/<key>/{manifest.json, files/}`.

Only the trusted side writes here. An entry is renamed into place when it is complete, under the key's lock, and every
file's SHA-256 is checked on every hit: an entry that is not exactly what its manifest says is built again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from kernelmill.trace_schema.errors import InternalError

POLL_S = 0.05
MANIFEST = "manifest.json"
FILES = "files"


class Manifest(BaseModel):
    """What an entry holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: dict[str, str] = {}
    """SHA-256 by path below `files/`."""
    log: str
    seconds: float
    failure: str | None = None
    """Why the sources do not compile; then there are no files."""


class Entry(NamedTuple):
    """A verified entry."""

    directory: Path
    manifest: Manifest


class Cache:
    """Entries below `root`, which is made if it is not there."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        root.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def locked(self, key: str, timeout_s: float) -> Iterator[None]:
        """Hold the key's lock, across processes and threads. Raises InternalError if another holds it for too long."""
        lock = self.root / f"{key}.lock"
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + timeout_s
            while not _try_lock(fd):
                if time.monotonic() > deadline:
                    raise InternalError(
                        f"another build has held {lock} for {timeout_s:g} s; find it with: fuser {lock}"
                    )
                time.sleep(POLL_S)
            yield
        finally:
            os.close(fd)

    def read(self, key: str) -> Entry | None:
        """The entry, if it is there and exactly what its manifest says."""
        entry = self.root / key
        if entry.is_symlink() or (entry / FILES).is_symlink():
            return None
        try:
            manifest = Manifest.model_validate_json((entry / MANIFEST).read_bytes())
            if _digests(entry / FILES) != manifest.files:
                return None
        except (OSError, ValidationError):
            return None
        return Entry(entry / FILES, manifest)

    @contextmanager
    def workshop(self, key: str) -> Iterator[Path]:
        """A fresh private directory for one build of `key`, removed afterwards. Needs the lock."""
        directory = self.root / f"{key}.new"
        shutil.rmtree(directory, ignore_errors=True)  # left by a process that was killed
        directory.mkdir(mode=0o700)
        try:
            yield directory
        finally:
            shutil.rmtree(directory)

    def put(self, key: str, files: Path, *, log: str, seconds: float, failure: str | None = None) -> Entry:
        """Make the tree `files`, which lies in the key's workshop, the entry's content. Needs the lock."""
        made = files.parent / "entry"
        made.mkdir()
        files.rename(made / FILES)
        manifest = Manifest(files=_digests(made / FILES), log=log, seconds=seconds, failure=failure)
        (made / MANIFEST).write_text(manifest.model_dump_json(indent=1))
        entry = self.root / key
        if entry.is_symlink() or entry.is_file():
            entry.unlink()
        elif entry.exists():
            shutil.rmtree(entry)
        made.rename(entry)
        return Entry(entry / FILES, manifest)


def copy_regular(source: Path, target: Path, max_bytes: int) -> None:
    """Copy a file that foreign code may have made. Raises OSError unless it is a regular file of at most that size."""
    fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(f"{source.name} is not a regular file")
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(f"{source.name} is larger than {max_bytes} bytes")
    target.write_bytes(content)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _digests(directory: Path) -> dict[str, str]:
    """SHA-256 by relative path of a tree; what is no regular file gets a digest that no file has."""
    found: dict[str, str] = {}
    for path in directory.rglob("*"):
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode):
            found[path.relative_to(directory).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif not stat.S_ISDIR(mode):
            found[path.relative_to(directory).as_posix()] = "not a regular file"
    return found
