"""NVIDIA's command line tools: where they lie on this host, and what of it the sandbox must show."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from kernelmill.evaluator.sandbox import Mount
from kernelmill.trace_schema.errors import InternalError

STANDARD = Path("/usr/local/cuda/bin")
PACKAGED = Path("/opt/nvidia")
"""Where NVIDIA's packages put the programs that the commands in the toolkit's folder only start."""
SHOWN = ("/usr", "/bin")
"""What every sandbox shows anyway, beside this Python environment."""


class Tool(NamedTuple):
    """A command, and the mounts without which it does not start in the sandbox."""

    path: Path
    mounts: tuple[Mount, ...]


def find(name: str, package: str) -> Tool:
    """The command of that name in CUDA_HOME, on the PATH, or where it is usually installed.

    Raises InternalError that names `package`, the one that holds it.
    """
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    places = [Path(home) / "bin" / name] if home else []
    found = shutil.which(name)
    places += [Path(found)] if found else []
    for place in (*places, STANDARD / name):
        if place.is_file() and os.access(place, os.X_OK):
            return Tool(place, _mounts(place))
    raise InternalError(
        f"{name} was not found in CUDA_HOME, on the PATH or in {STANDARD}; install {package} "
        "(it comes with the CUDA toolkit), or set CUDA_HOME to where the toolkit is"
    )


def _mounts(path: Path) -> tuple[Mount, ...]:
    """The toolkit around the command where the sandbox does not show it, and what its start script starts."""
    folders = [PACKAGED] if PACKAGED.is_dir() else []
    for place in dict.fromkeys((path, path.resolve())):
        folder = place.parent.parent if place.parent.name == "bin" else place.parent
        if not any(folder.is_relative_to(shown) for shown in (*SHOWN, PACKAGED, sys.prefix, sys.base_prefix)):
            folders.append(folder)
    return tuple(Mount(folder, str(folder)) for folder in dict.fromkeys(folders))
