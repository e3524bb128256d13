"""Packs the catalogue's definitions, and kernels (solution.toml and sources), each into its one JSON record."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from kernelmill.dataset import paths
from kernelmill.dataset.catalogue.entries import entries
from kernelmill.dataset.catalogue.workloads import delete_unused, is_synthetic, write_workloads
from kernelmill.trace_schema import Definition, Solution

KERNELS = Path(__file__).parents[1] / "kernels"
SHARED = KERNELS / "shared"
"""Headers that more than one kernel includes; each solution gets its own copy."""


def definitions() -> Iterator[Definition]:
    for entry in entries().values():
        yield entry.definition


def written() -> Iterator[Solution]:
    """The solutions that have a folder of source files of their own."""
    for file in sorted(KERNELS.glob("*/*/solution.toml")):
        yield solution(file.parent)


def solutions() -> Iterator[Solution]:
    """Those written by themselves, then the templates': a baseline is for the kinds of device that have none yet."""
    own = list(written())
    yield from own
    taken = {(one.definition, kind) for one in own if one.author == "baseline" for kind in one.spec.target_hardware}
    for name, entry in entries().items():
        for way in entry.template.sources:
            one = entry.template.solution(entry.kernel.constants, way)
            kinds = [kind for kind in one.spec.target_hardware if (name, kind) not in taken]
            if one.author != "baseline":
                yield one
            elif kinds:
                spec = one.spec.model_copy(update={"target_hardware": kinds})
                yield one.model_copy(update={"spec": spec})


def solution(folder: Path) -> Solution:
    """The solution in `folder`, which lies in a folder named after its definition; its name is made of both."""
    facts = tomllib.loads((folder / "solution.toml").read_text())
    files = [file for file in sorted(folder.iterdir()) if file.is_file() and file.name != "solution.toml"]
    files += [SHARED / name for name in facts["spec"].pop("shared", [])]
    raw = {
        "name": f"{folder.name}_{folder.parent.name}",
        "definition": folder.parent.name,
        **facts,
        "sources": [{"path": file.name, "content": file.read_text()} for file in files],
    }
    return Solution.model_validate(raw)


def write(out: Path) -> list[Path]:
    """Writes every definition and solution under `out`, and workloads of definitions that have no others yet.

    What is no longer made is deleted; derived workloads stay as they are.
    """
    written = []
    for name, entry in entries().items():
        written.append(_save(out / paths.definition_file(entry.definition.op_type, name), entry.definition))
        file = out / paths.workload_file(entry.definition.op_type, name)
        if not file.exists() or is_synthetic(file):
            written += write_workloads(out, entry)
    for one in solutions():
        op_type = entries()[one.definition].definition.op_type
        written.append(_save(out / paths.solution_file(one.author, op_type, one.definition, one.name), one))
    for tree in ("definitions", "solutions"):
        for stale in set((out / tree).rglob("*.json")) - set(written):
            stale.unlink()
    for file in (out / "workloads").rglob("*.jsonl"):
        if file.stem not in entries():
            file.unlink()
    delete_unused(out)
    return written


def _save(file: Path, record: Definition | Solution) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(record.model_dump_json(exclude_unset=True, indent=2) + "\n")
    return file
