"""The files of a dataset as they lie on the disk, and when one counts as unchanged."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from kernelmill.dataset.paths import TREES, is_inside
from kernelmill.dataset.problems import Problem

_SQLITE_INTEGER = (1 << 63) - 1  # some file systems have larger inodes, some files later dates


class Stamp(NamedTuple):
    """Equal stamps mean equal content: ctime_ns moves even where a tool puts the old mtime back."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        numbers = status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
        return cls(*(number & _SQLITE_INTEGER for number in numbers))


def walk(root: Path, problems: list[Problem]) -> dict[str, Stamp]:
    """Every file a dataset is read from, by its relative path, sorted. What may not be read goes to `problems`."""
    found: dict[str, Stamp] = {}
    for tree, suffix in TREES.items():
        top = root / tree
        if top.is_symlink():
            problems.append(_linked_folder(tree))
        elif top.is_dir():
            found.update(_files(root, tree, suffix, problems))
    return dict(sorted(found.items()))


def restat(root: Path, paths: Iterable[str]) -> dict[str, Stamp]:
    """The stamps of files already known to be the dataset's; those that have gone are left out."""
    found: dict[str, Stamp] = {}
    for path in paths:
        try:
            found[path] = Stamp.of((root / path).stat())
        except OSError:
            continue
    return found


def _files(root: Path, tree: str, suffix: str, problems: list[Problem]) -> Iterator[tuple[str, Stamp]]:
    folders = [tree]
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(root / folder))
        except OSError as error:
            problems.append(Problem(folder, None, "$", f"cannot be listed: {error.strerror}", "check its permissions"))
            continue
        for entry in entries:
            path = f"{folder}/{entry.name}"
            if not entry.name.isprintable():
                shown = path.encode("utf-8", "backslashreplace").decode()
                problems.append(Problem(shown, None, "$", "the file's name is not printable text", "rename it"))
            elif entry.is_dir(follow_symlinks=False):
                folders.append(path)
            elif entry.is_dir():
                problems.append(_linked_folder(path))
            elif entry.name.endswith(suffix):
                yield from _file(root, path, entry, problems)


def _file(root: Path, path: str, entry: os.DirEntry[str], problems: list[Problem]) -> Iterator[tuple[str, Stamp]]:
    try:
        yield path, _stamp(root, entry)
    except OSError as error:
        problems.append(Problem(path, None, "$", f"cannot be read: {error.strerror}", "restore or delete it"))


def _stamp(root: Path, entry: os.DirEntry[str]) -> Stamp:
    if entry.is_symlink() and not is_inside(root, Path(entry.path).resolve()):
        raise OSError(0, "it is a link that leaves the dataset")
    status = entry.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(0, "it is not a regular file")
    return Stamp.of(status)


def _linked_folder(path: str) -> Problem:
    return Problem(path, None, "$", "it is a link to a folder, which is not followed", "move the folder itself here")
