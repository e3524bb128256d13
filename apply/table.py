"""The apply table: which solutions may serve which sizes on this machine, and why the others may not."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from kernelmill.apply.errors import ApplyError

TABLE = "table.json"
VERIFIED = "verified.json"
Kept = TypeVar("Kept", bound=BaseModel)


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Range(Frozen):
    """Sizes on which a solution was measured faster than the incumbent: a box, by feature, ends included."""

    solution: str
    solution_hash: str
    lo: tuple[int, ...]
    hi: tuple[int, ...]
    points: tuple[tuple[int, ...], ...]
    """Sizes that were measured, by feature. Only they are served until `apply verify` has judged the whole range."""
    lower: float
    """Least lower bound of the time ratio to the incumbent over the measured sizes."""
    speedup: float
    """Least time ratio over them."""


class Note(Frozen):
    """Why something is not in the table."""

    definition: str
    what: str
    why: str


class Entry(Frozen):
    """One definition's ranges, the fastest first."""

    definition: str
    definition_hash: str
    op_type: str
    features: tuple[str, ...]
    incumbent: str
    ranges: tuple[Range, ...]


class Table(Frozen):
    """Made by `apply build`; the definitions and solutions that it names lie beside it."""

    format: Literal[1] = 1
    made_at: str
    source: str
    device_model: str
    arch: str
    libs: Literal["same", "any"]
    """same: only traces made with this machine's library versions counted."""
    fingerprint: str
    margin: float
    entries: tuple[Entry, ...]
    notes: tuple[Note, ...] = ()


class Verified(Frozen):
    """A range that `apply verify` judged on this machine, all sizes of which passed."""

    solution_hash: str
    definition_hash: str
    lo: tuple[int, ...]
    hi: tuple[int, ...]
    sizes: tuple[int, ...]
    device_model: str
    fingerprint: str
    at: str


class Verifications(Frozen):
    ranges: tuple[Verified, ...] = ()
    refused: tuple[Note, ...] = ()

    def covers(self, definition_hash: str, found: Range, device_model: str) -> bool:
        return any(
            (one.solution_hash, one.definition_hash, one.lo, one.hi, one.device_model)
            == (found.solution_hash, definition_hash, found.lo, found.hi, device_model)
            for one in self.ranges
        )


def read_table(home: Path) -> Table:
    """Raises ApplyError where there is none, or one that cannot be read."""
    return _read(home / TABLE, Table, "make one with: kernelmill apply build")


def read_verified(home: Path) -> Verifications:
    return _read(home / VERIFIED, Verifications, "") if (home / VERIFIED).exists() else Verifications()


def write(path: Path, record: BaseModel) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(path.suffix + ".new")
    new.write_text(record.model_dump_json(indent=1) + "\n")
    new.replace(path)


def _read(path: Path, kind: type[Kept], advice: str) -> Kept:
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise ApplyError(f"there is no {path}; {advice}") from None
    except (OSError, ValidationError) as error:
        raise ApplyError(f"{path} cannot be read: {error}; make it anew: kernelmill apply build") from error
