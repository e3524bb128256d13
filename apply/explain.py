"""Explain: what would serve a definition or a call on this machine, and why not something else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kernelmill.apply.features import Feature
from kernelmill.apply.installed import Chosen, Installed

Line = dict[str, Any]


def explain(installed: Installed, device_model: str, definition: str | None = None) -> Iterator[Line]:
    """One line a range and note: what is in force, then what is not and why."""
    chosen = {one.definition.name: one for one in installed.choices(device_model)}
    for entry in installed.table.entries:
        if definition not in (None, entry.definition):
            continue
        own = chosen.get(entry.definition)
        for found in entry.ranges:
            approved = installed.manifest.approval(found.solution_hash) is not None
            whole = installed.verified.covers(entry.definition_hash, found, installed.table.device_model)
            state = "no" if not approved or own is None else "whole range" if whole else "measured sizes"
            yield {
                "definition": entry.definition,
                "sizes": " x ".join(map(_span, entry.features, found.lo, found.hi)),
                "solution": found.solution,
                "solution_hash": found.solution_hash,
                "served": state,
                "lower": round(found.lower, 3),
                "over": entry.incumbent,
            }
    for note in (*installed.notes, *installed.verified.refused, *installed.table.notes):
        if definition in (None, note.definition) or note.definition == "*":
            yield {"definition": note.definition, "what": note.what, "why": note.why}


def explain_call(installed: Installed, device_model: str, definition: str, axes: Mapping[str, int]) -> Line:
    """Which kernel would serve a call of these sizes."""
    own: Chosen | None = next((c for c in installed.choices(device_model) if c.definition.name == definition), None)
    if own is None:
        why = next((note.why for note in installed.notes if note.definition in (definition, "*")), None)
        return {"definition": definition, "served": None, "why": why or "the table has nothing for it"}
    sizes = tuple(feature.of(axes) for feature in own.features)
    box = next((box for box in own.boxes if sizes in box), None)
    if box is not None:
        approval = own.approvals[box.kernel]
        return {"definition": definition, "served": approval.solution, "solution_hash": approval.solution_hash}
    covered = ", ".join(_spans(own.features, one.lo, one.hi) for one in own.boxes[:6])
    return {"definition": definition, "served": None, "why": f"no kernel covers these sizes; covered: {covered}"}


def explain_run(metrics: Path) -> Iterator[Line]:
    """What processes that kept metrics in this folder have substituted: op, shape, calls; and what tripped."""
    total, tripped = Counter[tuple[str, str, str]](), list[Line]()
    for file in sorted(metrics.glob("*.json")):
        told = json.loads(file.read_text())
        for call in told["engine_calls"]:
            total[call["op"], "shape", json.dumps(call["shape"])] += call["calls"]
        for name, one in told["definitions"].items():
            for kernel, counts in one["kernels"].items():
                total[name, "served", kernel] += counts["served"] + counts["looked_at"]
                if counts["is_tripped"]:
                    why = f"{counts['cause']}: {counts['detail']}"
                    tripped.append({"definition": name, "what": f"{kernel} in process {told['pid']}", "why": why})
            for kind in ("uncovered", "unfit", "failed"):
                total[name, kind, ""] += one[kind]
    for (name, kind, what), calls in sorted(total.items()):
        yield {"definition": name, "kind": kind, "what": what, "calls": calls}
    yield from tripped


def _spans(features: tuple[Feature, ...], lo: tuple[int, ...], hi: tuple[int, ...]) -> str:
    return " x ".join(_span(str(feature), low, high) for feature, low, high in zip(features, lo, hi, strict=True))


def _span(feature: str, lo: int, hi: int) -> str:
    return f"{feature}={lo}" if lo == hi else f"{feature}={lo}..{hi}"
