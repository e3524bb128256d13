"""Writes workloads into a dataset: one a line, index tensors in files named by their hash; and the demo slice."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelmill.dataset import blobs, paths
from kernelmill.dataset.catalogue.entries import Entry
from kernelmill.dataset.derive import values
from kernelmill.dataset.derive.catalogued import calls, entry_of
from kernelmill.dataset.derive.choose import Kept
from kernelmill.dataset.derive.recipes import Group, Laid, Recipe
from kernelmill.trace_schema import Definition, SafetensorsInput, Trace, Workload
from kernelmill.trace_schema.constraints import evaluate
from kernelmill.trace_schema.errors import DatasetError

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "kernelmill:workload")
BLOBS, BLOBS_OF_DEMO = "blob/workloads/traffic", "blob/workloads/demo"
"""Folders for all definitions, since those that see the same state share its files; the wheel carries the second."""
DEMO_BYTES, DEMO_FLOPS = 6.0e7, 8.0e9
"""Most that one call of the demo slice may cost, so that a laptop's CPU judges it in well under a second."""
DEMO_ROWS = 128
"""Larger batches make the baselines of norms call torch.compile, which takes a worker half a minute on two cores."""
DEMO_TOKENS = 512


def make_workloads(
    root: Path, definition: Definition, recipe: Recipe, kept: Sequence[Kept], split: str
) -> list[Workload]:
    """Workloads of the states, smallest first; their index tensors are written. Equal calls become one."""
    made: dict[str, Workload] = {}
    for one in kept:
        workload = _workload(root, definition, recipe.lay(definition, one.state), one, split)
        if (twin := made.get(workload.uuid)) is not None:
            workload = twin.model_copy(update={"weight": (twin.weight or 0) + (workload.weight or 0)})
        made[workload.uuid] = workload
    return sorted(made.values(), key=lambda workload: (cost(definition, workload), workload.uuid))


def _workload(root: Path, definition: Definition, laid: Laid, kept: Kept, split: str) -> Workload:
    entry = entry_of(definition)
    axes = {}
    for name in definition.var_axes:
        if name not in laid.axes:
            raise DatasetError(
                f"{definition.name}: no rule sizes the axis {name!r} for op type {definition.op_type!r}; "
                "add it to dataset/derive/recipes.py"
            )
        axes[name] = laid.axes[name]
    inputs = _inputs(root, definition, entry, laid)
    unique = identity(definition, axes, inputs)
    raw: dict[str, Any] = {
        "uuid": str(unique),
        "axes": axes,
        "inputs": inputs,
        "weight": kept.steps * calls(entry),
        "seed": unique.int & 0x7FFFFFFF,
        "split": split,
        "provenance": kept.state.provenance,
    }
    return Workload.model_validate(raw)


def identity(definition: Definition, axes: Mapping[str, int], inputs: Mapping[str, Any]) -> uuid.UUID:
    """Equal calls have equal uuids, whoever found them."""
    return uuid.uuid5(NAMESPACE, json.dumps([definition.name, axes, inputs], sort_keys=True))


def _inputs(root: Path, definition: Definition, entry: Entry | None, laid: Laid) -> dict[str, Any]:
    """The catalogue's values where it has the definition, else those that fit what the tensors mean."""
    draws = entry.template.draws if entry else {}
    scalars = entry.template.scalars(entry.kernel.constants) if entry else {}
    stored = {name: group for group in laid.groups for name in group}
    written: dict[int, dict[str, str]] = {}
    inputs: dict[str, Any] = {}
    for name, spec in definition.inputs.items():
        if spec.shape is None:
            inputs[name] = {
                "type": "scalar",
                "value": scalars[name] if name in scalars else values.scalar(definition, name),
            }
        elif name in stored:
            group = stored[name]
            if id(group) not in written:
                written[id(group)] = _write_blob(root, definition, group)
            inputs[name] = {"type": "safetensors", "tensor_key": name, **written[id(group)]}
        else:
            drawn = draws.get(name) or values.draw(definition, name, spec)
            inputs[name] = {"type": "random", "distribution": drawn}
    return inputs


def _write_blob(root: Path, definition: Definition, group: Group) -> dict[str, str]:
    """The group in one file, of the types that the definition wants; the whole group where they are all int32."""
    import numpy as np

    wanted = {name: definition.inputs[name].dtype.value for name in group if name in definition.inputs}
    one_array = len({id(array) for array in group.values()}) == 1
    names = list(group) if not one_array and set(wanted.values()) == {"int32"} else list(wanted)
    data = blobs.encode({name: np.ascontiguousarray(group[name], dtype=wanted.get(name, "int32")) for name in names})
    sha256 = hashlib.sha256(data).hexdigest()
    folder = BLOBS_OF_DEMO if definition.name in read_demo(root) else BLOBS
    file = root / folder / f"{sha256}.safetensors"
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        file.write_bytes(data)
    return {"path": file.relative_to(root).as_posix(), "sha256": sha256}


def cost(definition: Definition, workload: Workload) -> tuple[float, float]:
    """Bytes and operations of one call; of tensors, where the definition does not say."""
    axes = definition.resolve_axes(workload.axes)
    stated = definition.cost
    if stated and stated.bytes and stated.flops:
        return evaluate(stated.bytes, axes), evaluate(stated.flops, axes)
    moved = 0.0
    for name, spec in {**definition.inputs, **definition.outputs}.items():
        elements = 1.0
        for length in definition.shape(name, axes) or ():
            elements *= length
        moved += elements * spec.dtype.bytes
    return moved, 0.0


def write_lines(root: Path, definition: Definition, workloads: Iterable[Workload]) -> None:
    """Replaces the definition's workload file."""
    file = root / paths.workload_file(definition.op_type, definition.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [Trace(definition=definition.name, workload=workload) for workload in workloads]
    file.write_text("".join(line.model_dump_json(exclude_unset=True) + "\n" for line in lines))


def drop_unused_blobs(root: Path) -> None:
    """Deletes the index tensors that no workload names any more."""
    used = set()
    for file in (root / "workloads").rglob("*.jsonl"):
        for line in file.read_text().splitlines():
            workload = Trace.model_validate_json(line).workload
            used |= {spec.path for spec in workload.inputs.values() if isinstance(spec, SafetensorsInput)}
    for file in (root / "blob" / "workloads").rglob("*.safetensors"):
        if file.relative_to(root).as_posix() not in used:
            file.unlink()
    for folder in sorted((root / "blob").rglob("*"), reverse=True):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def read_demo(root: Path) -> dict[str, list[str]]:
    """The demo slice: definition -> uuids of workloads; empty where there is none."""
    file = root / "demo.json"
    return json.loads(file.read_text()) if file.exists() else {}


def write_demo(root: Path, chosen: dict[str, list[str]]) -> None:
    (root / "demo.json").write_text(json.dumps(chosen, indent=2, sort_keys=True) + "\n")


def demo_of(definition: Definition, workloads: Sequence[Workload]) -> list[str]:
    """The smallest, a middle and a large workload of those that a laptop's CPU judges at once."""
    light = [
        workload.uuid
        for workload in workloads
        if (spent := cost(definition, workload))[0] <= DEMO_BYTES
        and spent[1] <= DEMO_FLOPS
        and workload.axes.get("batch_size", 0) <= DEMO_ROWS
        and max(workload.axes.get(name, 0) for name in ("num_tokens", "M", "total_q")) <= DEMO_TOKENS
    ]
    return list(dict.fromkeys([light[0], light[len(light) // 2], light[-1]]))
