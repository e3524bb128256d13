"""What tracing reads from the environment: where it writes, what it looks at, and how much it may keep."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kernelmill.apply.errors import ApplyError
from kernelmill.apply.settings import number
from kernelmill.dataset.paths import default_path


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """Read once, when tracing is enabled."""

    out: Path
    """The dataset that is written, made where it is missing."""
    dataset: Path
    """Whose definitions are traced, beside those of `out`."""
    only: tuple[str, ...] = ()
    """Names or patterns of definitions; all where empty."""
    by_value: frozenset[str] = frozenset()
    """Floating inputs that are stored as they were; the others are random."""
    workloads: int = 32
    """Of a definition and process."""
    keys: int = 512
    """Different sizes of a definition that are told apart; later ones are rounded, coarser and coarser."""
    bytes: int = 256 << 20
    """Of stored tensors, held in memory."""
    every_s: float = 10.0
    """Between writes, so that a killed process has lost no more."""
    deadline_s: float = 5.0
    """The last write at a process's end may take so long."""

    @classmethod
    def read(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Raises ApplyError for a value that makes no sense, or where nothing says where to write."""
        out = environ.get("KERNELMILL_TRACING_OUT")
        named = out or environ.get("KERNELMILL_DATASET") or environ.get("FIB_DATASET_PATH")
        if not named:
            raise ApplyError("nothing says where to write; set KERNELMILL_TRACING_OUT to a folder")
        return cls(
            out=Path(named).expanduser().absolute(),
            dataset=default_path(),
            only=_names(environ.get("KERNELMILL_TRACING_ONLY")),
            by_value=frozenset(_names(environ.get("KERNELMILL_TRACING_BY_VALUE"))),
            workloads=int(number(environ, "KERNELMILL_TRACING_WORKLOADS", 32, 10_000, 1)),
            keys=int(number(environ, "KERNELMILL_TRACING_KEYS", 512, 1_000_000, 1)),
            bytes=int(number(environ, "KERNELMILL_TRACING_MIB", 256, 1 << 20) * (1 << 20)),
            every_s=number(environ, "KERNELMILL_TRACING_EVERY_S", 10.0, 86_400, 0.1),
        )


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())
