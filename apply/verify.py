"""Verify: judge the approved kernels on this machine between the sizes that were measured, before a range is served.

Sizes of a range: what engines capture graphs for, the ends and their neighbours, and three drawn from inside, one odd
and one prime. All must pass. A definition whose workloads hold captured tensors (index tables) cannot be asked for
other sizes; there the measured ones stay the only ones that are served.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kernelmill.apply.approval.manifest import Manifest
from kernelmill.apply.host import Host
from kernelmill.apply.table import VERIFIED, Entry, Note, Range, Verifications, Verified, read_verified, write
from kernelmill.trace_schema import Definition, Solution, Trace, Verdict, Workload

if TYPE_CHECKING:
    from kernelmill.evaluator.options import JudgeOptions

CAPTURED = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))
"""Batch sizes that vLLM 0.32 captures CUDA graphs for by default."""
INSIDE = 3


def sizes_of(found: Range, captured: Iterable[int] = CAPTURED) -> list[int]:
    """For a range over one feature."""
    lo, hi = found.lo[0], found.hi[0]
    chosen = {max(1, lo - 1), lo, min(lo + 1, hi), max(hi - 1, lo), hi, hi + 1}
    chosen |= {size for size in captured if lo <= size <= hi}
    inside = range(lo + 1, hi)
    drawn = random.SystemRandom().sample(inside, min(INSIDE, len(inside)))
    odd = [size for size in inside if size % 2]
    primes = [size for size in inside if is_prime(size)]
    return sorted({*chosen, *drawn, *(random.choice(some) for some in (odd, primes) if some)})


def is_prime(number: int) -> bool:
    return number > 1 and all(number % factor for factor in range(2, int(number**0.5) + 1))


def workloads_of(definition: Definition, sizes: Iterable[int]) -> list[Workload] | None:
    """Random inputs of these sizes of the one variable axis; None where random inputs would not do."""
    axes = definition.var_axes
    integer = [name for name, spec in definition.inputs.items() if not spec.dtype.is_float]
    scalar = [name for name, spec in definition.inputs.items() if spec.shape is None]
    if len(axes) != 1 or integer or scalar:
        return None
    inputs = {name: {"type": "random"} for name in definition.inputs}
    return [
        Workload.model_validate({"uuid": str(uuid.uuid4()), "axes": {axes[0]: size}, "inputs": inputs})
        for size in sizes
    ]


def verify(
    entry: Entry,
    definition: Definition,
    solutions: Mapping[str, Solution],
    manifest: Manifest,
    host: Host,
    options: JudgeOptions | None = None,
) -> Iterator[Verified | Note]:
    """One a range of each approved solution. What was verified once on this machine is judged again."""
    from kernelmill.evaluator.options import JudgeOptions
    from kernelmill.evaluator.run import evaluate

    quick = options or JudgeOptions(sessions=1, warmups=1, pairs=1, pairs_min=1, seconds=0.05)
    approved = [found for found in entry.ranges if manifest.approval(found.solution_hash)]
    for solution_hash in dict.fromkeys(found.solution_hash for found in approved):
        own = [found for found in approved if found.solution_hash == solution_hash]
        wanted = {found: sizes_of(found) if len(found.lo) == 1 else [] for found in own}
        loads = workloads_of(definition, sorted({size for sizes in wanted.values() for size in sizes}))
        if loads is None:
            why = "its inputs cannot be made for other sizes: only the measured ones are served"
            yield Note(definition=entry.definition, what=own[0].solution, why=why)
            continue
        judged = evaluate(definition, solutions[solution_hash], loads, device=host.kind, options=quick)
        failures = {next(iter(trace.workload.axes.values())): trace for trace in judged if not _passed(trace)}
        for found, sizes in wanted.items():
            failed = next((failures[size] for size in sizes if size in failures), None)
            if failed is None:
                yield _verified(entry, found, host, sizes)
            else:
                what = f"{found.solution} {list(found.lo)}..{list(found.hi)}"
                yield Note(definition=entry.definition, what=what, why=_why(failed))


def record(home: Path, outcomes: Iterable[Verified | Note]) -> Verifications:
    """Adds to what was verified; a range that was judged again stands as it was judged last."""
    outcomes = list(outcomes)
    old = read_verified(home)
    judged = {(one.definition_hash, one.solution_hash, one.lo, one.hi) for one in outcomes if isinstance(one, Verified)}
    refused = tuple(one for one in outcomes if isinstance(one, Note))
    named = {f"{one.definition} {one.what}" for one in refused}
    kept = [one for one in old.ranges if (one.definition_hash, one.solution_hash, one.lo, one.hi) not in judged]
    notes = tuple(one for one in old.refused if f"{one.definition} {one.what}" not in named)
    new = [one for one in outcomes if isinstance(one, Verified)]
    found = Verifications(ranges=(*kept, *new), refused=(*notes, *refused))
    write(home / VERIFIED, found)
    return found


def told(definition: str, outcome: Verified | Note) -> str:
    """One line for a person."""
    if isinstance(outcome, Note):
        return f"not served between  {outcome.what}  {outcome.why}"
    return f"verified  {definition}  {list(outcome.lo)}..{list(outcome.hi)}  {len(outcome.sizes)} sizes passed"


def _passed(trace: Trace) -> bool:
    return trace.evaluation is not None and trace.evaluation.effective_verdict is Verdict.PASSED


def _why(trace: Trace) -> str:
    evaluation = trace.evaluation
    said = (
        f"{evaluation.effective_verdict}: {evaluation.reason or evaluation.log[:200]}" if evaluation else "not judged"
    )
    return f"{dict(trace.workload.axes)}: {said}"


def _verified(entry: Entry, found: Range, host: Host, sizes: list[int]) -> Verified:
    return Verified(
        solution_hash=found.solution_hash,
        definition_hash=entry.definition_hash,
        lo=found.lo,
        hi=found.hi,
        sizes=tuple(sizes),
        device_model=host.model,
        fingerprint=host.fingerprint,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
