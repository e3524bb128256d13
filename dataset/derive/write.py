"""Writes workloads into a dataset: one a line, index tensors in files named by their hash; and the demo slice."""

from __future__ import annotations

import hashlib
import json
import uuid
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from kernelmill.dataset import paths
from kernelmill.dataset.derive.moments import Moment
from kernelmill.dataset.derive.recipes import Inputs, Recipe, input_specs
from kernelmill.trace_schema import Definition, Trace, Workload
from kernelmill.trace_schema.constraints import evaluate

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "kernelmill:workload")
DEMO_BYTES, DEMO_FLOPS = 6.0e7, 8.0e9
"""Most that one call of the demo slice may cost, so that a laptop's CPU judges it in well under a second."""
DEMO_ROWS = 128
"""Larger batches make the baselines of norms call torch.compile, which takes a worker half a minute on two cores."""


def write_workloads(root: Path, definition: Definition, recipe: Recipe, chosen: list[Moment]) -> list[Workload]:
    """Replaces the definition's workload file; smallest workload first. Blobs nothing names any more are deleted."""
    blobs = root / paths.blob_folder(definition.op_type, definition.name)
    kept: set[Path] = set()
    made = []
    for moment in chosen:
        built = recipe.inputs(moment)
        blob = _write_blob(root, blobs, recipe, built) if built.tensors else None
        kept.update({root / blob["path"]} if blob else ())
        made.append(_workload(definition, recipe, built, moment, blob))
    for stale in set(blobs.glob("*.safetensors")) - kept:
        stale.unlink()
    file = root / paths.workload_file(definition.op_type, definition.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    made.sort(key=lambda workload: (_cost(definition, workload), workload.uuid))
    lines = [Trace(definition=definition.name, workload=workload) for workload in made]
    file.write_text("".join(line.model_dump_json(exclude_unset=True) + "\n" for line in lines))
    return made


def _cost(definition: Definition, workload: Workload) -> tuple[float, float]:
    """Bytes and operations of one call."""
    assert definition.cost and definition.cost.bytes and definition.cost.flops
    axes = definition.resolve_axes(workload.axes)
    return evaluate(definition.cost.bytes, axes), evaluate(definition.cost.flops, axes)


def _workload(
    definition: Definition, recipe: Recipe, built: Inputs, moment: Moment, blob: dict[str, str] | None
) -> Workload:
    inputs = input_specs(recipe, built, blob)
    ordered = {name: inputs[name] for name in definition.inputs}
    identity = json.dumps([definition.name, built.axes, ordered], sort_keys=True)
    raw: dict[str, Any] = {
        "uuid": str(uuid.uuid5(NAMESPACE, identity)),
        "axes": built.axes,
        "inputs": ordered,
        "weight": round(moment.steps * recipe.calls),
        "split": "public",
        "provenance": moment.provenance,
    }
    return Workload.model_validate(raw)


def _write_blob(root: Path, folder: Path, recipe: Recipe, built: Inputs) -> dict[str, str]:
    arrays = {
        name: np.array(values, dtype=np.int64 if name in recipe.wide else np.int32)
        for name, values in built.tensors.items()
    }
    data = save(arrays)
    sha256 = hashlib.sha256(data).hexdigest()
    file = folder / f"{sha256}.safetensors"
    folder.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return {"path": file.relative_to(root).as_posix(), "sha256": sha256}


def write_demo(root: Path, written: list[tuple[Definition, list[Workload]]]) -> None:
    """demo.json: of each definition the smallest, a middle and a large workload, by uuid."""
    demo = {definition.name: [made.uuid for made in _demo(definition, workloads)] for definition, workloads in written}
    (root / "demo.json").write_text(json.dumps(demo, indent=2, sort_keys=True) + "\n")


def _demo(definition: Definition, workloads: list[Workload]) -> list[Workload]:
    costs = [_cost(definition, workload) for workload in workloads]
    light = [
        workload
        for workload, (moved, flops) in zip(workloads, costs, strict=True)
        if moved <= DEMO_BYTES and flops <= DEMO_FLOPS and workload.axes.get("batch_size", 0) <= DEMO_ROWS
    ]
    return [light[0], light[len(light) // 2], light[-1]]
