"""A submission's own dataset: its definition, workloads and baselines, and nothing that belongs to somebody else.

Owners of devices read it, and nothing that is judged can: the sandbox shows no file of it.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, select

from kernelmill.dataset import Dataset
from kernelmill.dataset.index import index_file
from kernelmill.dataset.paths import default_cache, inside
from kernelmill.evaluator.executors import Unit
from kernelmill.leaderboard import catalog
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.leases import Lease
from kernelmill.trace_schema import Definition, SafetensorsInput, Solution, Trace, Workload
from kernelmill.trace_schema.errors import DatasetError


class Unmeasured(DatasetError):
    """The catalogue no longer has what a submission is for; the text is fit for its author."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a lease asks to be judged, read from the database at one moment."""

    definition: Definition
    solution: Solution
    baselines: list[Solution]
    workloads: list[Workload]

    @property
    def solution_hash(self) -> str:
        return self.solution.hash()


def read_order(connection: Connection, lease: Lease) -> Order:
    """Raises Unmeasured."""
    body = connection.scalar(
        select(t.Definition.body).where(t.Definition.name == lease.definition, t.Definition.is_current)
    )
    if body is None:
        raise Unmeasured(f"the definition {lease.definition} is no longer measured; submit to one that is")
    workloads = (
        select(t.Workload.uuid, t.Workload.split, t.Workload.body)
        .where(t.Workload.definition == lease.definition, t.Workload.is_current)
        .order_by(t.Workload.position)
    )
    wanted = [
        Workload.model_validate_json(row.body)
        for row in connection.execute(workloads)
        if (row.split != catalog.HIDDEN or lease.is_ranked)
        and (lease.workload_uuids is None or row.uuid in lease.workload_uuids)
    ]
    baselines = select(t.Solution.body).where(
        t.Solution.definition == lease.definition,
        t.Solution.is_baseline,
        t.Solution.hidden_at.is_(None),
        t.Solution.hash != lease.solution_hash,
    )
    own = connection.execute(select(t.Solution.body).where(t.Solution.hash == lease.solution_hash)).scalar_one()
    return Order(
        Definition.model_validate_json(body),
        Solution.model_validate_json(own),
        [Solution.model_validate_json(text) for text in connection.scalars(baselines)],
        wanted,
    )


class Spool:
    """Folders of orders under one root. `blobs` is the dataset that stored tensors are taken from."""

    def __init__(self, root: Path, blobs: Path | None) -> None:
        self.root = root
        self._blobs = blobs

    def lay(self, lease: Lease, order: Order) -> Unit:
        """Write the dataset and say what is to be judged of it. Raises DatasetError for a blob that is missing."""
        folder = self.root / f"{lease.id}-{lease.fence}"
        self.clear(folder)
        (folder / "definitions").mkdir(parents=True, mode=0o700)
        dataset = Dataset.open(folder)
        dataset.add_definition(order.definition)
        for solution in (*order.baselines, order.solution):
            dataset.add_solution(solution)
        for workload in order.workloads:
            self._bring_blobs(folder, workload)
            dataset.append(Trace(definition=order.definition.name, workload=workload, solution=None, evaluation=None))
        key = order.solution_hash
        return Unit(
            dataset=str(dataset.root),
            definition=order.definition.name,
            solutions=[order.solution.name],
            workloads=[workload.uuid for workload in order.workloads],
            done=[(key, workload.hash()) for workload in order.workloads if workload.uuid in lease.done],
        )

    def clear(self, folder: Path) -> None:
        """Nothing of it is left, nor of its index."""
        if folder.exists():
            index_file(folder.resolve(), default_cache()).unlink(missing_ok=True)
            shutil.rmtree(folder)

    def clear_all(self) -> None:
        """At a dispatcher's start: whatever is left is of one that was lost."""
        for folder in self.root.glob("*-*") if self.root.is_dir() else ():
            self.clear(folder)

    def _bring_blobs(self, folder: Path, workload: Workload) -> None:
        for spec in workload.inputs.values():
            if not isinstance(spec, SafetensorsInput):
                continue
            if self._blobs is None:
                raise DatasetError(f"the workload {workload.uuid} needs {spec.path}, and the service has no dataset")
            source, target = inside(self._blobs, spec.path), folder / spec.path
            if target.exists():
                continue
            if not source.is_file():
                raise DatasetError(f"the blob {spec.path} is missing in {self._blobs}; fetch or restore it")
            target.parent.mkdir(parents=True, exist_ok=True)
            _link(source, target)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)
