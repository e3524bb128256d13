"""The whole derivation: from a folder of traces to the workloads of a dataset, public or hidden."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from kernelmill.dataset import paths
from kernelmill.dataset.derive import write
from kernelmill.dataset.derive.choose import Population
from kernelmill.dataset.derive.recipes import page_size, recipe_for
from kernelmill.dataset.derive.traffic import Plan
from kernelmill.trace_schema import Definition, Trace, Workload
from kernelmill.trace_schema.errors import DatasetError

Say = Callable[[str], None]


def read_definitions(root: Path) -> dict[str, Definition]:
    """Every definition of the dataset, by name."""
    files = sorted((root / "definitions").rglob("*.json"))
    if not files:
        raise DatasetError(f"{root}: no definitions in it; name a dataset's root")
    found = (Definition.model_validate_json(file.read_text()) for file in files)
    return {definition.name: definition for definition in found}


def chosen(definitions: Mapping[str, Definition], names: Iterable[str]) -> list[Definition]:
    """Those named, else all; coarse pages last, so that replays of one page size are used together."""
    wanted = list(names)
    if unknown := sorted(set(wanted) - definitions.keys()):
        raise DatasetError(f"no definition is called {', '.join(unknown)} here")
    found = [definitions[name] for name in wanted] if wanted else list(definitions.values())
    return sorted(found, key=lambda one: (page_size(one), one.name))


def derive_public(root: Path, traces: Plan, names: Iterable[str] = (), say: Say = print) -> None:
    """Rewrites workloads, index tensors and demo.json under `root`; the same inputs give the same bytes."""
    population = Population(traces)
    demo = write.read_demo(root)
    for definition in chosen(read_definitions(root), names):
        recipe = recipe_for(definition)
        kept = population.keep(definition, recipe, portable=definition.name in demo, seed=None)
        made = write.make_workloads(root, definition, recipe, kept, "public")
        write.write_lines(root, definition, [*made, *_of_split(root, definition, "hidden")])
        if definition.name in demo:
            demo[definition.name] = write.demo_of(definition, made)
        say(f"{definition.name}: {len(made)} workloads")
    if demo:
        write.write_demo(root, demo)
    write.drop_unused_blobs(root)


def derive_hidden(root: Path, out: Path, traces: Plan, seed: str, names: Iterable[str] = (), say: Say = print) -> None:
    """A dataset at `out` with all that `root` has, and hidden workloads beside the public ones.

    Each hidden call differs from every public one of its definition. Raises DatasetError where `out` is in a
    repository: what is hidden must not be committed by accident.
    """
    _refuse_repository(out)
    if not (out / "definitions").exists():
        shutil.copytree(root, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns("traces"))
    population = Population(traces)
    demo = write.read_demo(root)
    for definition in chosen(read_definitions(out), names):
        recipe = recipe_for(definition)
        kept = population.keep(definition, recipe, portable=definition.name in demo, seed=seed)
        public = list(_of_split(out, definition, "public"))
        known = {workload.hash() for workload in public}
        made = write.make_workloads(out, definition, recipe, kept, "hidden")
        hidden = [workload for workload in made if workload.hash() not in known]
        write.write_lines(out, definition, [*public, *hidden])
        say(f"{definition.name}: {len(hidden)} hidden workloads")
    write.drop_unused_blobs(out)


def _of_split(root: Path, definition: Definition, split: str) -> Iterator[Workload]:
    file = root / paths.workload_file(definition.op_type, definition.name)
    for line in file.read_text().splitlines() if file.exists() else ():
        workload = Trace.model_validate_json(line).workload
        if (workload.split or "public") == split:
            yield workload


def _refuse_repository(out: Path) -> None:
    for folder in (out.resolve(), *out.resolve().parents):
        if (folder / ".git").exists():
            raise DatasetError(
                f"{out} is in the repository {folder}, where hidden workloads could be committed; "
                "choose a folder outside, such as the service's data folder"
            )
