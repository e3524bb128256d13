"""Where things lie: the public layout, and the guard that no name and no path leaves the dataset.

Names come from files that anybody may have written: an author called `../../x` must never become a folder.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from kernelmill.trace_schema.errors import DatasetError

TREES = {"definitions": ".json", "solutions": ".json", "workloads": ".jsonl", "traces": ".jsonl"}
_LONGEST_NAME = 240  # bytes; file systems allow 255, the rest is room for a suffix


def default_path() -> Path:
    """KERNELMILL_DATASET, else FIB_DATASET_PATH, else the dataset shipped in the package."""
    named = os.environ.get("KERNELMILL_DATASET") or os.environ.get("FIB_DATASET_PATH")
    return Path(named).expanduser() if named else Path(__file__).parent / "data"


def default_cache() -> Path:
    """KERNELMILL_CACHE, else FIB_CACHE_PATH, else ~/.cache/kernelmill."""
    named = os.environ.get("KERNELMILL_CACHE") or os.environ.get("FIB_CACHE_PATH")
    return Path(named or "~/.cache/kernelmill").expanduser()


def segment(name: str, what: str) -> str:
    """`name`, unless it cannot be one file name; `what` says in the error whose name it is."""
    fault = None
    if not name or name != name.strip() or name in (".", ".."):
        fault = "is empty, blank at an end, or a folder of the file system"
    elif any(character in "/\\" or not character.isprintable() for character in name):
        fault = "holds a slash, a backslash or an unprintable character"
    elif len(name.encode("utf-8", "replace")) > _LONGEST_NAME:
        fault = f"is longer than {_LONGEST_NAME} bytes"
    if fault:
        raise DatasetError(f"the {what} {name!r} {fault}, so it cannot name a file of the dataset; rename it")
    return name


def definition_file(op_type: str, name: str) -> str:
    return f"definitions/{segment(op_type, 'op_type')}/{segment(name, 'definition name')}.json"


def workload_file(op_type: str, definition: str) -> str:
    return f"workloads/{segment(op_type, 'op_type')}/{segment(definition, 'definition name')}.jsonl"


def solution_file(author: str, op_type: str, definition: str, name: str) -> str:
    folder = f"{segment(author, 'author')}/{segment(op_type, 'op_type')}/{segment(definition, 'definition name')}"
    return f"solutions/{folder}/{segment(name, 'solution name')}.json"


def trace_file(author: str, op_type: str, definition: str) -> str:
    folder = f"{segment(author, 'author')}/{segment(op_type, 'op_type')}"
    return f"traces/{folder}/{segment(definition, 'definition name')}.jsonl"


def blob_folder(op_type: str, definition: str) -> str:
    return f"blob/workloads/{segment(op_type, 'op_type')}/{segment(definition, 'definition name')}"


def inside(root: Path, relative: str) -> Path:
    """The real file behind `relative`. DatasetError where it, or a symbolic link on its way, leaves the dataset."""
    if "\0" in relative:
        raise DatasetError(f"the path {relative!r} holds a NUL byte; no file has such a name")
    if PurePosixPath(relative).is_absolute():
        raise DatasetError(f"the path {relative!r} is absolute; write it relative to the dataset's root")
    try:
        real = (root / relative).resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        raise DatasetError(f"the path {relative!r} cannot be followed: {error}") from error
    if not is_inside(root, real):
        raise DatasetError(f"the path {relative!r} leads to {real}, outside the dataset {root}; copy the file into it")
    return real


def is_inside(root: Path, real: Path) -> bool:
    """Both must be resolved. A hub snapshot's files are links into its own `blobs` folder, which counts as inside."""
    if real.is_relative_to(root):
        return True
    return root.parent.name == "snapshots" and real.is_relative_to(root.parent.parent / "blobs")
