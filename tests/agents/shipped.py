"""A small dataset made of shipped parts: one definition and some of its workloads, against the reference."""

from __future__ import annotations

import json
from pathlib import Path

from kernelmill.dataset import Dataset
from kernelmill.trace_schema import Definition


def shipped() -> Dataset:
    return Dataset.open(Path(__file__).resolve().parents[2] / "dataset" / "data")


def small(root: Path, name: str = "rmsnorm_h4096", workloads: int = 2, largest: bool = True) -> Dataset:
    """There is no baseline, so the reference is one."""
    source = shipped()
    definition = source.definition(name)
    place(root / "definitions" / definition.op_type / f"{name}.json", definition.model_dump_json(exclude_unset=True))
    lines = sorted(source.workloads(definition), key=lambda one: sum(one.axes.values()))
    lines = lines[-workloads:] if largest else lines[:workloads]
    records = [{"definition": name, "workload": json.loads(one.model_dump_json(exclude_unset=True))} for one in lines]
    text = "".join(json.dumps({**record, "solution": None, "evaluation": None}) + "\n" for record in records)
    place(root / "workloads" / definition.op_type / f"{name}.jsonl", text)
    return Dataset.open(root, cache_dir=root / "cache")


def definitions(*names: str) -> list[Definition]:
    found = shipped().definitions
    return [found[name] for name in names]


def place(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
