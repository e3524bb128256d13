"""One solution out of specialists: it looks at the size of an axis and calls whichever is best there.

A regime is all sizes of one axis with equally many binary digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from math import fsum
from typing import NamedTuple

from kernelmill.agents.attempt import Attempt
from kernelmill.trace_schema import Definition, Language, Solution, SourceFile, Workload
from kernelmill.trace_schema.errors import InternalError

WORTH = 1.02
"""What a merge must promise over the best specialist: less is noise."""
_EXPORT = re.compile(r"^TVM_FFI_DLL_EXPORT_TYPED_FUNC\(run, (\w+)\);\n?", re.MULTILINE)


class Piece(NamedTuple):
    """`specialist` serves sizes up to `most`; None: all that are larger."""

    most: int | None
    specialist: Attempt


class Merge(NamedTuple):
    """Who serves which sizes of `axis`, smallest first. `gain`: over the best of them alone, by their own times."""

    axis: str
    pieces: tuple[Piece, ...]
    gain: float

    @property
    def specialists(self) -> list[Attempt]:
        return list({piece.specialist.number: piece.specialist for piece in self.pieces}.values())


def best_by_regime(
    attempts: Sequence[Attempt], workloads: Sequence[Workload], axis: str
) -> dict[int, tuple[Attempt, float]]:
    """By binary digits of the axis: who spends least on the regime's calls, and how much; of equals the earlier.

    Raises KeyError where an attempt lacks a workload that the first one has.
    """
    weights = {one.uuid: one.weight or 1.0 for one in workloads}
    spent = [_spent(one, weights) for one in attempts]
    regimes: dict[int, list[str]] = {}
    for timing in attempts[0].outcome.timings:
        regimes.setdefault(timing.axes[axis].bit_length(), []).append(timing.workload)
    found = {}
    for digits, members in sorted(regimes.items()):
        costs = [fsum(each[uuid] for uuid in members) for each in spent]
        least = min(range(len(attempts)), key=costs.__getitem__)
        found[digits] = attempts[least], costs[least]
    return found


def planned(definition: Definition, workloads: Sequence[Workload], attempts: Sequence[Attempt]) -> Merge | None:
    """The merge of these specialists that promises most; None where none promises enough.

    Only attempts that passed, are no merges themselves, speak one language and were timed on the same workloads.
    """
    merges = []
    whole = [one for one in attempts if one.outcome.passed and one.outcome.timings and not one.proposal.merges]
    for group in _alike(whole):
        merges += [_over(axis, group, workloads) for axis in definition.var_axes if _place(definition, axis)]
    best = max(merges, key=lambda one: one.gain, default=None)
    return best if best is not None and len(best.specialists) > 1 and best.gain > WORTH else None


def merged(definition: Definition, merge: Merge) -> Solution:
    """Raises InternalError where a specialist's source has another form than a template's."""
    spec = merge.pieces[0].specialist.proposal.solution.spec
    solutions = [one.proposal.solution for one in merge.specialists]
    numbers = [one.number for one in merge.specialists]
    chosen = [(piece.most, numbers.index(piece.specialist.number)) for piece in merge.pieces]
    entry = spec.entry_file
    write = _native if spec.language in (Language.CPP, Language.CUDA) else _python
    main, modules = write(definition, merge.axis, chosen, [one.files[entry] for one in solutions])
    shared = {path: text for one in solutions for path, text in one.files.items() if path != entry}
    files = {entry: main, **modules, **shared}
    text = "".join(f"{path}\0{content}\0" for path, content in files.items())
    name = f"{definition.name}-merged-{spec.language.value}-{sha256(text.encode()).hexdigest()[:8]}"
    bounds = ", ".join(f"{'above' if most is None else f'to {most}'}: {solutions[at].name}" for most, at in chosen)
    sources = [SourceFile(path=path, content=content) for path, content in files.items()]
    return solutions[0].model_copy(
        update={"name": name, "sources": sources, "description": f"merged by {merge.axis}: {bounds}"}
    )


def _spent(attempt: Attempt, weights: Mapping[str, float]) -> dict[str, float]:
    """Time of a workload's calls, in the baseline's terms: ratios are paired and times are not."""
    timings = attempt.outcome.timings
    return {one.workload: weights[one.workload] * one.baseline_ms / one.ratio for one in timings}


def _alike(attempts: Sequence[Attempt]) -> Iterator[list[Attempt]]:
    def key(one: Attempt) -> tuple[str, str, list[str]]:
        spec = one.proposal.solution.spec
        return spec.language.value, spec.entry_file, sorted(timing.workload for timing in one.outcome.timings)

    for _, group in groupby(sorted(attempts, key=lambda one: (key(one), one.number)), key):
        yield list(group)


def _over(axis: str, attempts: Sequence[Attempt], workloads: Sequence[Workload]) -> Merge:
    weights = {one.uuid: one.weight or 1.0 for one in workloads}
    alone = min(fsum(_spent(one, weights).values()) for one in attempts)
    regimes = best_by_regime(attempts, workloads, axis)
    together = fsum(cost for _, cost in regimes.values())
    runs = [list(run) for _, run in groupby(regimes.items(), lambda item: item[1][0].number)]
    last = len(runs) - 1
    pieces = [Piece(None if number == last else (1 << run[-1][0]) - 1, run[0][1][0]) for number, run in enumerate(runs)]
    return Merge(axis, tuple(pieces), alone / together if together else 1.0)


def _place(definition: Definition, axis: str) -> tuple[int, int] | None:
    """The first input that has the axis, and which of its dimensions it is."""
    for number, spec in enumerate(definition.inputs.values()):
        if spec.shape and axis in spec.shape and not spec.optional:
            return number, spec.shape.index(axis)
    return None


def _found(definition: Definition, axis: str) -> tuple[int, int]:
    place = _place(definition, axis)
    if place is None:
        raise InternalError(f"{definition.name}: no input has the axis {axis}, so nothing can be chosen by it")
    return place


def _native(
    definition: Definition, axis: str, chosen: Sequence[tuple[int | None, int]], sources: Sequence[str]
) -> tuple[str, dict[str, str]]:
    """The entry file, and others. Each specialist in a namespace of its own, in one translation unit."""
    number, dimension = _found(definition, axis)
    exports = [_EXPORT.search(source) for source in sources]
    heads = [
        re.search(rf"^void {export[1]}\(([^)]*)\)", source, re.MULTILINE) if export else None
        for export, source in zip(exports, sources, strict=True)
    ]
    if None in exports or heads[0] is None:
        raise InternalError(f"{definition.name}: a specialist does not export its function as the templates do")
    lines = [line for source in sources for line in source.splitlines()]
    includes = dict.fromkeys(line for line in lines if line.startswith("#include"))
    blocks = []
    for at, source in enumerate(sources):
        body = "\n".join(line for line in _EXPORT.sub("", source).splitlines() if not line.startswith("#include"))
        blocks.append(f"namespace specialist_{at} {{\n{body}\n}}  // namespace specialist_{at}\n")
    qualified = re.sub(r"(?<![\w:])TensorView", "tvm::ffi::TensorView", heads[0][1])
    names = [part.split()[-1] for part in qualified.split(",")]
    calls = []
    for most, at in chosen:
        export = exports[at]
        assert export is not None
        condition = "" if most is None else f"if (size <= {most}) "
        calls.append(f"  {condition}return specialist_{at}::{export[1]}({', '.join(names)});")
    size = f"  const int64_t size = {names[number]}.size({dimension});  // {axis}"
    body = "\n".join([f"void merged({qualified}) {{", size, *calls, "}"])
    text = "\n".join([*includes, "", *blocks, body, "", "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, merged);", ""])
    return text, {}


def _python(
    definition: Definition, axis: str, chosen: Sequence[tuple[int | None, int]], sources: Sequence[str]
) -> tuple[str, dict[str, str]]:
    """The entry file, and others. Each specialist in a module of its own."""
    number, dimension = _found(definition, axis)
    names = [*definition.inputs, *definition.outputs]
    imports = [f"from .specialist_{at} import run as run_{at}" for at in range(len(sources))]
    calls = []
    for most, at in chosen:
        call = f"return run_{at}({', '.join(names)})"
        calls.append(f"    {call}" if most is None else f"    if size <= {most}:\n        {call}")
    body = [f"def run({', '.join(names)}):", f"    size = {names[number]}.shape[{dimension}]  # {axis}", *calls]
    files = {f"specialist_{at}.py": source for at, source in enumerate(sources)}
    return "\n".join([*imports, "", "", *body, ""]), files
