"""From the operator's folder to kernels that can be called: what is approved, unchanged, and fits this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelmill.apply.approval.approve import KERNELS
from kernelmill.apply.approval.keys import read_public
from kernelmill.apply.approval.manifest import Approval, Manifest, digests, read_manifest
from kernelmill.apply.errors import ApplyError
from kernelmill.apply.features import Feature
from kernelmill.apply.grid import Box
from kernelmill.apply.settings import Settings
from kernelmill.apply.table import Entry, Note, Range, Table, Verifications, read_table, read_verified
from kernelmill.trace_schema import Definition


@dataclass(frozen=True, slots=True)
class Chosen:
    """One definition's kernels: boxes in order of preference, whose numbers are places in `approvals`."""

    definition: Definition
    features: tuple[Feature, ...]
    boxes: tuple[Box, ...]
    approvals: tuple[Approval, ...]


@dataclass(slots=True)
class Installed:
    """Everything that may be put in force, and why the rest may not."""

    table: Table
    manifest: Manifest
    verified: Verifications
    home: Path
    notes: list[Note] = field(default_factory=list)

    @classmethod
    def read(cls, settings: Settings) -> Installed:
        """Raises ApplyError where the folder cannot be trusted or read."""
        table = read_table(settings.home)
        manifest = read_manifest(settings.home, read_public(settings.trust))
        return cls(table, manifest, read_verified(settings.home), settings.home)

    def choices(self, device_model: str) -> list[Chosen]:
        """By definition, on a device of this model; what is left out is noted."""
        if self.table.device_model != device_model:
            why = f"the table is for {self.table.device_model!r}, this is {device_model!r}: kernelmill apply build"
            self.notes.append(Note(definition="*", what="*", why=why))
            return []
        return [chosen for entry in self.table.entries if (chosen := self._choice(entry))]

    def load(self, approval: Approval) -> Callable[..., Any]:
        """The kernel's own function. Raises ApplyError unless its files are the approved ones."""
        from kernelmill.evaluator.builders.load import load

        folder = self.home / KERNELS / approval.solution_hash
        if digests(folder) != approval.files:
            raise ApplyError(f"{folder} is not what was approved; approve it again: kernelmill apply approve")
        path = list(sys.path)
        try:
            return load(approval.kind, folder, approval.entry, approval.symbol)
        finally:
            sys.path[:] = path

    def _choice(self, entry: Entry) -> Chosen | None:
        definition = self._definition(entry)
        if definition is None:
            return None
        boxes, approvals = list[Box](), list[Approval]()
        for found in entry.ranges:
            approval = self.manifest.approval(found.solution_hash)
            if approval is None:
                why = f"not approved: kernelmill apply approve {found.solution_hash[:12]}"
                self._note(entry, found.solution, why)
                continue
            if approval not in approvals:
                approvals.append(approval)
            boxes += self._boxes(entry, found, approvals.index(approval))
        if not boxes:
            return None
        features = tuple(Feature.parse(text) for text in entry.features)
        return Chosen(definition, features, tuple(boxes), tuple(approvals))

    def _boxes(self, entry: Entry, found: Range, kernel: int) -> list[Box]:
        if self.verified.covers(entry.definition_hash, found, self.table.device_model):
            return [Box(found.lo, found.hi, kernel)]
        if found.lo != found.hi:
            what = f"{found.solution} {list(found.lo)}..{list(found.hi)}"
            self._note(
                entry, what, "only measured sizes are served until it is judged between: kernelmill apply verify"
            )
        return [Box(point, point, kernel) for point in found.points]

    def _definition(self, entry: Entry) -> Definition | None:
        path = self.home / "definitions" / f"{entry.definition}.json"
        try:
            definition = Definition.model_validate_json(path.read_bytes())
        except (OSError, ValueError) as error:
            self._note(entry, "*", f"its definition cannot be read: {error}")
            return None
        if definition.hash() != entry.definition_hash:
            self._note(entry, "*", "its definition is not the one that the table was made for: kernelmill apply build")
            return None
        return definition

    def _note(self, entry: Entry, what: str, why: str) -> None:
        note = Note(definition=entry.definition, what=what, why=why)
        if note not in self.notes:
            self.notes.append(note)
