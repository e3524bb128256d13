"""Packs definitions (TOML and reference) and kernels (solution.toml and sources), each into its one JSON record."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelmill.dataset import paths
from kernelmill.trace_schema import Definition, Solution

CATALOGUE = Path(__file__).parent
KERNELS = CATALOGUE.parent / "kernels"
SHARED = KERNELS / "shared"
"""Headers that more than one kernel includes; each solution gets its own copy."""


def definitions() -> Iterator[Definition]:
    for file in sorted(CATALOGUE.glob("*/*.toml")):
        yield definition(file)


def definition(file: Path) -> Definition:
    """The definition that `file` and the reference beside it describe. `shape = "scalar"` is a Python number."""
    facts = tomllib.loads(file.read_text())
    for tensor in (*facts["inputs"].values(), *facts["outputs"].values()):
        tensor["shape"] = None if tensor["shape"] == "scalar" else tensor["shape"]
    raw: dict[str, Any] = {"name": file.stem}
    for key in ("op_type", "description", "tags", "axes", "constraints", "inputs", "outputs"):
        if key in facts:
            raw[key] = facts[key]
    raw["reference"] = file.with_suffix(".py").read_text()
    raw.update({key: facts[key] for key in ("comparator", "cost") if key in facts})
    return Definition.model_validate(raw)


def solutions() -> Iterator[Solution]:
    for file in sorted(KERNELS.glob("*/*/solution.toml")):
        yield solution(file.parent)


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
    """Writes every definition and solution under `out`; other files there stay as they are."""
    op_types = {}
    written = []
    for record in definitions():
        op_types[record.name] = record.op_type
        written.append(_save(out / paths.definition_file(record.op_type, record.name), record))
    for one in solutions():
        place = paths.solution_file(one.author, op_types[one.definition], one.definition, one.name)
        written.append(_save(out / place, one))
    return written


def _save(file: Path, record: Definition | Solution) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(record.model_dump_json(exclude_unset=True, indent=2) + "\n")
    return file
