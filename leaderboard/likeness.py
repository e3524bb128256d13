"""Whether one submitted kernel is a near-clone of another: fingerprints of their normal forms, and what these share.

Fingerprints are chosen by winnowing (Schleimer, Wilkerson, Aiken: Winnowing, SIGMOD 2003), the algorithm behind MOSS:
of every `WINDOW` neighbouring hashes of `GRAM` words the least is kept, so that whatever two solutions share that is
at least GRAM + WINDOW - 1 words long is seen. Each top-level function is winnowed alone: their order changes nothing.

A near-clone is a hint for a person and no verdict. Whoever writes a statement between every two others is not found,
and two definitions that are nearly one (silu and gelu) have honest kernels that are: compare within one definition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from hashlib import blake2b

from kernelmill.leaderboard.normal_form import units
from kernelmill.trace_schema import Solution

FORM = b"1"
"""Goes into each fingerprint. Change it when the normal form changes: those made before then match nothing."""
GRAM = 16
WINDOW = 4
LEAST = 24
"""Solutions with fewer fingerprints of their own resemble nothing: all who call the one right function write them."""
NEAR = 0.7
"""From this likeness on two solutions are near-clones. `python -m benchmarks.likeness_margin`: of the shipped solutions
of one definition, those that were written apart reach 0.56 and disguised copies fall to 0.80.
"""


def fingerprint(solution: Solution) -> list[int]:
    """Sorted, distinct, signed 64-bit numbers, the same on every machine. Only the sources count."""
    return sorted({least for unit in units(solution) for least in _winnowed(_hashes(unit))})


def likeness(one: Collection[int], other: Collection[int], common: Collection[int] = ()) -> float:
    """How much of the smaller of two fingerprints is in the other, 0 to 1. `common` is what anybody may use: a header
    that is handed out, a template.

    Of the smaller one, not of both (Jaccard): code that does nothing, put beside a copy, must not hide it.
    """
    mine, theirs = set(one).difference(common), set(other).difference(common)
    smaller = min(len(mine), len(theirs))
    return len(mine & theirs) / smaller if smaller >= LEAST else 0.0


def _hashes(unit: list[str]) -> list[int]:
    """Of every run of GRAM words."""
    return [_hash("\0".join(unit[at : at + GRAM])) for at in range(len(unit) - GRAM + 1)]


def _hash(text: str) -> int:
    digest = blake2b(text.encode(), digest_size=8, person=FORM).digest()
    return int.from_bytes(digest, "big", signed=True)


def _winnowed(hashes: list[int]) -> Iterator[int]:
    """The least of every WINDOW neighbours; of a short unit the least of all."""
    for at in range(max(1, len(hashes) - WINDOW + 1) if hashes else 0):
        yield min(hashes[at : at + WINDOW])
