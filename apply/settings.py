"""What apply reads from the environment. Standard library only: an armed process asks this before anything else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kernelmill.apply.errors import ApplyError

YES = frozenset({"1", "true", "yes", "on"})
NO = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Settings:
    """Read once, when apply is enabled."""

    home: Path
    """Folder of the table, the manifest and the built kernels."""
    trust: Path
    """The operator's public key."""
    shadow: float = 0.0
    """Share of calls that run both kernels."""
    first: int = 1
    """So many first calls of each range are looked at whatever the share."""
    events: Path | None = None
    """File that events are appended to."""
    metrics: Path | None = None
    """Folder that counters are written to, two files a process."""

    @classmethod
    def read(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Raises ApplyError for a value that makes no sense."""
        home = Path(environ.get("KERNELMILL_APPLY_HOME") or "~/.config/kernelmill/apply").expanduser()
        trust = environ.get("KERNELMILL_APPLY_TRUST")
        events = environ.get("KERNELMILL_APPLY_EVENTS")
        metrics = environ.get("KERNELMILL_APPLY_METRICS")
        return cls(
            home=home,
            trust=Path(trust).expanduser() if trust else home / "operator.pub",
            shadow=number(environ, "KERNELMILL_APPLY_SHADOW", 0.0, 1.0),
            first=int(number(environ, "KERNELMILL_APPLY_FIRST", 1.0, 1e9)),
            events=Path(events).expanduser() if events else home / "events.jsonl",
            metrics=Path(metrics).expanduser() if metrics else None,
        )


def is_wanted(environ: Mapping[str, str] = os.environ) -> bool:
    """KERNELMILL_ENABLE_APPLY, else FIB_ENABLE_APPLY. A value that is neither yes nor no counts as no."""
    return (environ.get("KERNELMILL_ENABLE_APPLY") or environ.get("FIB_ENABLE_APPLY") or "").lower() in YES


def is_traced(environ: Mapping[str, str] = os.environ) -> bool:
    """KERNELMILL_ENABLE_TRACING, else FIB_ENABLE_TRACING, in the same way."""
    return (environ.get("KERNELMILL_ENABLE_TRACING") or environ.get("FIB_ENABLE_TRACING") or "").lower() in YES


def is_armed(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment asks for anything at all."""
    return is_wanted(environ) or is_traced(environ)


def number(environ: Mapping[str, str], name: str, default: float, most: float, least: float = 0.0) -> float:
    """The setting, or its default. Raises ApplyError where it is no number from `least` to `most`."""
    text = environ.get(name)
    try:
        value = float(text) if text else default
    except ValueError:
        value = -1.0
    if not least <= value <= most:
        raise ApplyError(f"{name}={text!r} is no number from {least:g} to {most:g}; correct or unset it")
    return value
