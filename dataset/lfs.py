"""Git LFS: a pointer is known by its first bytes, and fetched only where that was asked for.

Fetching runs `git` in the dataset, whose own configuration may name further programs; so it is never done unasked.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from pathlib import Path

from kernelmill.trace_schema.errors import DatasetError

POINTER_START = b"version https://git-lfs.github.com/spec/v1"


def is_pointer(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(POINTER_START)) == POINTER_START


def pull_command(relative: str) -> str:
    return f"git lfs pull --include {shlex.quote(relative)}"


def fetch(root: Path, relative: str, timeout_s: float) -> None:
    """Replaces the pointer at `relative` by its file, within `timeout_s` seconds; DatasetError otherwise."""
    command = ["git", "lfs", "pull", "--include", relative]
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    advice = f"run `{pull_command(relative)}` in {root} by hand"
    try:
        process = subprocess.Popen(
            command,
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise DatasetError(f"{relative} is a Git LFS pointer and git cannot be run ({error}); {advice}") from error
    with process:
        try:
            _, errors = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise DatasetError(f"fetching {relative} took longer than {timeout_s:g} s; {advice}") from None
    if process.returncode or is_pointer(root / relative):
        said = errors.decode(errors="replace").strip()[-300:] or f"exit status {process.returncode}"
        raise DatasetError(f"{relative} is a Git LFS pointer and could not be fetched ({said}); {advice}")
