"""Lay a solution's sources out on disk, following nothing that is already there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from kernelmill.evaluator.builders.base import BuildError
from kernelmill.trace_schema.solution import SourceFile, normal_path

MAX_FILES = 1000
MAX_BYTES = 16 << 20
MAX_PATH_BYTES = 1024
MAX_COMPONENTS = 32
"""Far below what the kernel's path limit, open files and a recursive removal can bear."""
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FRESH_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_sources(sources: Sequence[SourceFile], root: Path) -> None:
    """Write every file below the empty directory `root`. Raises BuildError(invalid).

    The schema has checked the paths; they are checked again, since a record can be made without validation.
    """
    if len(sources) > MAX_FILES:
        raise BuildError(f"{len(sources)} source files; at most {MAX_FILES} are accepted", kind="invalid")
    room = MAX_BYTES
    for source in sources:
        try:
            path, content = normal_path(source.path), source.content.encode()
        except ValueError as error:
            raise BuildError(f"source {source.path!r} cannot be written: {error}", kind="invalid") from error
        check_size(path)
        room -= len(content)
        if room < 0:
            raise BuildError(f"the sources are larger than {MAX_BYTES} bytes; shorten them", kind="invalid")
        try:
            _write(root, path.split("/"), content)
        except (FileExistsError, NotADirectoryError) as error:
            reason = "another source is that file, or is a file where this one needs a directory; rename it"
            raise BuildError(f"source {path!r} cannot be written: {reason}", kind="invalid") from error


def check_size(path: str) -> None:
    """Raises BuildError(invalid) for a path that is too long or too deep to be handled everywhere."""
    size, depth = len(path.encode()), path.count("/") + 1
    if size > MAX_PATH_BYTES or depth > MAX_COMPONENTS:
        raise BuildError(
            f"source {path[:40]!r}... cannot be written: its path has {size} bytes in {depth} components, at most "
            f"{MAX_PATH_BYTES} in {MAX_COMPONENTS} are accepted; shorten it",
            kind="invalid",
        )


def _write(root: Path, parts: list[str], content: bytes) -> None:
    with ExitStack() as stack:

        def opened(path: str | Path, flags: int, parent: int | None = None) -> int:
            fd = os.open(path, flags, 0o644, dir_fd=parent)
            stack.callback(os.close, fd)
            return fd

        directory = opened(root, DIRECTORY)
        for part in parts[:-1]:
            with suppress(FileExistsError):  # made for an earlier file, else opening it as a directory fails
                os.mkdir(part, 0o755, dir_fd=directory)
            directory = opened(part, DIRECTORY, directory)
        with open(opened(parts[-1], FRESH_FILE, directory), "wb", closefd=False) as file:
            file.write(content)
