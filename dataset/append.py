"""Writing to a dataset: a crash at any moment loses at most the line being written, other writers lose nothing.

- A line is one `write` of the whole line, at the end of the file, under the file's lock, flushed to the disk.
- A last line without its newline is completed first; where it is no JSON its writer died in the middle of it, so its
  bytes are moved to `<file>.torn`, and every reader can read the file again.
- A whole file is written beside its place, flushed and renamed into it; under its lock where it depends on what stood
  there, so that nobody's line falls between the reading and the renaming.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic_core import from_json

from kernelmill.dataset.lfs import POINTER_START
from kernelmill.dataset.paths import inside
from kernelmill.trace_schema.errors import DatasetError

_LOCK_TIMEOUT_S = 30.0
_CHUNK = 1 << 16
_log = logging.getLogger("kernelmill.dataset")


def append_line(root: Path, relative: str, line: bytes) -> None:
    """Adds `line`, which ends in its only newline, to the file at `relative`. On the disk when this returns."""
    with _writable(root, relative) as path, _locked(path) as (descriptor, is_new):
        _complete_last_line(descriptor, path)
        size = os.fstat(descriptor).st_size
        written = os.write(descriptor, line)
        if written != len(line):  # the disk is full
            os.ftruncate(descriptor, size)
            raise DatasetError(f"{relative} could not be written: the disk took {written} of {len(line)} bytes")
        os.fsync(descriptor)
        if is_new:
            _sync_folder(path.parent)


def write_file(root: Path, relative: str, data: bytes) -> None:
    """Puts `data` at `relative` in one step: a reader sees the old file or the new. On the disk when this returns."""
    with _writable(root, relative) as path:
        _replace(path, data)


def revise_file(root: Path, relative: str, revise: Callable[[bytes], bytes]) -> None:
    """Replaces a file of lines by what `revise` makes of it, while its lock keeps other writers out.

    `revise` is given the whole lines; nothing where there is no file.
    """
    with _writable(root, relative) as path, _locked(path) as (descriptor, _):
        _complete_last_line(descriptor, path)
        before = path.read_bytes()
        after = revise(before)
        if after != before:
            _replace(path, after)


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}.tmp")
    try:
        with temporary.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


@contextmanager
def _writable(root: Path, relative: str) -> Iterator[Path]:
    """The real path to write, its folders made; an error of the file system says which file and why."""
    path = inside(root, relative)
    if not path.is_relative_to(root):
        raise DatasetError(
            f"{relative} is a link out of {root}, which is read and never written; replace it by the file"
        )
    try:
        for folder in reversed([each for each in path.parents if each.is_relative_to(root) and not each.exists()]):
            folder.mkdir(exist_ok=True)
            _sync_folder(folder.parent)
        yield path
    except OSError as error:
        raise DatasetError(f"{relative} in {root} cannot be written: {error.strerror or error}") from error


@contextmanager
def _locked(path: Path) -> Iterator[tuple[int, bool]]:
    """A descriptor of the file that has this name while its lock is held, and whether the file is new."""
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        is_new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise DatasetError(f"{path} is not a regular file; delete it")
            _lock(descriptor, path, deadline)
            if _is_at(descriptor, path):
                yield descriptor, is_new
                return
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # a process forked meanwhile has the descriptor too
            os.close(descriptor)


def _lock(descriptor: int, path: Path, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                reason = f"{path} has been locked by another process for {_LOCK_TIMEOUT_S:g} s"
                raise DatasetError(f"{reason}; find it with `fuser {path}`") from None
            time.sleep(0.002)


def _is_at(descriptor: int, path: Path) -> bool:
    """Not so where the file was replaced while its lock was awaited."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _complete_last_line(descriptor: int, path: Path) -> None:
    if os.pread(descriptor, len(POINTER_START), 0) == POINTER_START:
        raise DatasetError(
            f"{path} is a Git LFS pointer, to which nothing can be added; fetch the file with `git lfs pull`"
        )
    end = os.fstat(descriptor).st_size
    tail = b""
    while len(tail) < end and b"\n" not in tail:
        start = max(0, end - len(tail) - _CHUNK)
        tail = os.pread(descriptor, end - len(tail) - start, start) + tail
    tail = tail.rpartition(b"\n")[2]
    if not tail:
        return
    try:
        from_json(tail)
    except ValueError:
        torn = path.with_name(f"{path.name}.torn")
        _log.warning("%s ends in a line cut short: its %d bytes are moved to %s", path, len(tail), torn)
        with torn.open("ab") as stream:
            stream.write(tail + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.ftruncate(descriptor, end - len(tail))
    else:
        os.write(descriptor, b"\n")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
