"""Chosen calls into a dataset that several processes fill at a time, each again and again.

A workload says by its uuid what is called, so what two processes have seen alike is one line. Its provenance holds how
many calls each process has seen: a process that writes again replaces its own share, and the weight is the sum. Lines
that are no engine's are left as they are. All of it happens under the lock of the definition's workload file.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelmill.apply.tracing.choose import Stood
from kernelmill.apply.tracing.sample import Sample
from kernelmill.dataset import Dataset
from kernelmill.dataset.derive import values
from kernelmill.dataset.derive.write import identity
from kernelmill.trace_schema import Definition, RandomInput, SafetensorsInput, Workload
from kernelmill.trace_schema.errors import DatasetError

ENDED = "ended"
"""Whose share it is once its process is no more."""
BASELINE = "baseline"
TAKEN = "the dataset has this workload from elsewhere"


@dataclass(slots=True)
class Output:
    """The dataset that is written, and the one that its definitions are from."""

    root: Path
    source_root: Path
    session: str
    _dataset: Dataset | None = None
    _source: Dataset | None = None
    _draws: dict[str, dict[str, Any]] = field(default_factory=dict)
    _stale: dict[str, set[str]] = field(default_factory=dict)
    """Files of this process that no line of its own names any more, by definition."""

    @property
    def dataset(self) -> Dataset:
        """Made where there is none yet: a process that sees no call writes nothing."""
        if self._dataset is None:
            (self.root / "definitions").mkdir(parents=True, exist_ok=True)
            self._dataset = Dataset.open(self.root)
        return self._dataset

    @property
    def source(self) -> Dataset:
        if self._source is None:
            self._source = Dataset.open(self.source_root)
        return self._source

    def write(self, definition: Definition, stood: Sequence[Stood], *, is_last: bool) -> Counter[str]:
        """Replaces this process's share by `stood`. Returns what could not be written: reasons and calls."""
        self._prepare(definition)
        refused: Counter[str] = Counter()

        def revise(before: list[Workload]) -> list[Workload]:
            self._drop_stale(definition, before)
            mine = self._workloads(definition, stood)
            return list(self._merged(definition, before, mine, refused, ENDED if is_last else self.session))

        self.dataset.revise_workloads(definition, revise)
        if is_last and self._stale.get(definition.name):
            self.dataset.revise_workloads(definition, lambda before: self._drop_stale(definition, before))
        return refused

    def _prepare(self, definition: Definition) -> None:
        """The definition and, where its dataset has one, the baseline: then what is written can be judged."""
        if definition.name in self.dataset.definitions:
            return
        self.dataset.add_definition(definition)
        if self.source.root != self.dataset.root:
            for solution in self.source.solutions(definition):
                if solution.author == BASELINE:
                    with contextlib.suppress(DatasetError):  # another process was first
                        self.dataset.add_solution(solution)

    def _merged(
        self,
        definition: Definition,
        before: list[Workload],
        mine: dict[str, Workload],
        refused: Counter[str],
        name: str,
    ) -> list[Workload]:
        after = []
        for workload in before:
            shares = shares_of(workload)
            new = mine.pop(workload.uuid, None)
            if shares is None:
                after.append(workload)
                refused[TAKEN] += int(new.weight or 0) if new else 0
                continue
            was = dict(shares)
            shares.pop(self.session, None)
            if new is not None:
                shares[name] = shares.get(name, 0) + int(new.weight or 0)
            if not shares:
                self._stale.setdefault(definition.name, set()).update(files_of(workload))
            elif shares == was:
                after.append(workload)
            else:
                after.append(_shared(workload, shares))
        return after + [_shared(new, {name: int(new.weight or 0)}) for new in mine.values()]

    def _drop_stale(self, definition: Definition, kept: list[Workload]) -> list[Workload]:
        named = {path for workload in kept for path in files_of(workload)}
        for path in self._stale.pop(definition.name, set()) - named:
            (self.dataset.root / path).unlink(missing_ok=True)
        return kept

    def _workloads(self, definition: Definition, stood: Sequence[Stood]) -> dict[str, Workload]:
        made: dict[str, Workload] = {}
        for one in stood:
            workload = self._workload(definition, one.sample, one.calls)
            if (twin := made.get(workload.uuid)) is not None:
                workload = twin.model_copy(update={"weight": (twin.weight or 0) + one.calls})
            made[workload.uuid] = workload
        return made

    def _workload(self, definition: Definition, sample: Sample, calls: int) -> Workload:
        stored = self.dataset.add_blob(definition, sample.tensors) if sample.tensors else {}
        inputs: dict[str, Any] = {}
        for name in definition.inputs:
            if name in sample.scalars:
                inputs[name] = {"type": "scalar", "value": sample.scalars[name]}
            elif name in stored:
                inputs[name] = stored[name].model_dump(exclude_unset=True)
            elif name not in sample.absent:
                inputs[name] = self._draw(definition, name)
        unique = identity(definition, sample.axes, inputs)
        raw = {
            "uuid": str(unique),
            "axes": sample.axes,
            "inputs": inputs,
            "weight": float(calls),
            "seed": unique.int & 0x7FFFFFFF,
            "split": "public",
            "provenance": {"kind": "engine"},
        }
        return Workload.model_validate(raw)

    def _draw(self, definition: Definition, name: str) -> dict[str, Any]:
        """As the definition's dataset draws it, else as such tensors are."""
        if definition.name not in self._draws:
            self._draws[definition.name] = self._known_draws(definition)
        if (known := self._draws[definition.name].get(name)) is not None:
            return {"type": "random", "distribution": known}
        try:
            return {"type": "random", "distribution": values.draw(definition, name, definition.inputs[name])}
        except DatasetError:
            return {"type": "random"}

    def _known_draws(self, definition: Definition) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if definition.name in self.source.definitions:
            for workload in self.source.workloads(definition):
                for name, spec in workload.inputs.items():
                    if isinstance(spec, RandomInput) and spec.distribution is not None:
                        found.setdefault(name, spec.distribution.model_dump(exclude_unset=True))
                break
        return found


def shares_of(workload: Workload) -> dict[str, int] | None:
    """Calls by process; None for a workload that tracing has not written."""
    provenance = workload.provenance
    calls = (provenance.model_extra or {}).get("calls") if provenance and provenance.kind == "engine" else None
    return dict(calls) if isinstance(calls, dict) else None


def files_of(workload: Workload) -> set[str]:
    return {spec.path for spec in workload.inputs.values() if isinstance(spec, SafetensorsInput)}


def _shared(workload: Workload, shares: dict[str, int]) -> Workload:
    raw = workload.model_dump(exclude_unset=True)
    raw["provenance"] = {**raw["provenance"], "calls": shares}
    return Workload.model_validate({**raw, "weight": float(sum(shares.values()))})
