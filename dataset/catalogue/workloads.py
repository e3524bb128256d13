"""Workloads out of hand-sized calls, and the index tensors that they share, stored once under their hash."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kernelmill.dataset.catalogue.entries import Entry
from kernelmill.dataset.catalogue.states import State, states
from kernelmill.trace_schema import Trace

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "kernelmill:workload")
SHARED = "blob/workloads/shared"
"""Index tensors do not depend on head counts or widths, so one file serves many definitions."""


def write_workloads(out: Path, entry: Entry) -> list[Path]:
    """Writes the definition's workload file and its blobs under `out`; gives the files."""
    from kernelmill.dataset import paths

    lines, files = [], []
    for state in states(entry):
        blob = None
        if state.tensors:
            file, blob = _blob(out, entry, state)
            files.append(file)
        lines.append(Trace.model_validate({"definition": entry.definition.name, "workload": _raw(entry, state, blob)}))
    file = out / paths.workload_file(entry.definition.op_type, entry.definition.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(line.model_dump_json(exclude_unset=True) + "\n" for line in lines))
    return [*files, file]


def is_synthetic(file: Path) -> bool:
    """Whether a workload file holds calls made here, and none that was derived or recorded."""
    found = [json.loads(line)["workload"].get("provenance", {}) for line in file.read_text().splitlines()]
    return all(one.get("kind") == "synthetic" for one in found)


def delete_unused(out: Path) -> None:
    """Deletes shared blobs that no workload names any more."""
    named = {
        spec["path"]
        for file in (out / "workloads").rglob("*.jsonl")
        for line in file.read_text().splitlines()
        for spec in json.loads(line)["workload"]["inputs"].values()
        if "path" in spec
    }
    for file in (out / SHARED).glob("*.safetensors"):
        if file.relative_to(out).as_posix() not in named:
            file.unlink()


def _raw(entry: Entry, state: State, blob: Mapping[str, str] | None) -> dict[str, Any]:
    inputs = dict(_inputs(entry, state, blob))
    axes = {name: state.axes[name] for name in entry.definition.var_axes}
    identity = json.dumps([entry.definition.name, axes, inputs], sort_keys=True)
    return {
        "uuid": str(uuid.uuid5(NAMESPACE, identity)),
        "axes": axes,
        "inputs": inputs,
        "weight": 1.0,
        "split": "public",
        "provenance": {"kind": "synthetic"},
    }


def _inputs(entry: Entry, state: State, blob: Mapping[str, str] | None) -> Iterator[tuple[str, dict[str, Any]]]:
    draws, scalars = entry.template.draws, entry.template.scalars(entry.kernel.constants)
    for name in entry.definition.inputs:
        if name in scalars:
            yield name, {"type": "scalar", "value": scalars[name]}
        elif name in state.tensors:
            yield name, {"type": "safetensors", "tensor_key": name, **(blob or {})}
        else:
            yield name, {"type": "random", "distribution": draws[name]}


def _blob(out: Path, entry: Entry, state: State) -> tuple[Path, dict[str, str]]:
    import numpy as np
    from safetensors.numpy import save

    arrays = {
        name: np.array(values, dtype=entry.definition.inputs[name].dtype.value)
        for name, values in sorted(state.tensors.items())
    }
    data = save(arrays)
    sha256 = hashlib.sha256(data).hexdigest()
    file = out / SHARED / f"{sha256}.safetensors"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file, {"path": file.relative_to(out).as_posix(), "sha256": sha256}
