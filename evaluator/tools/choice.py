"""What an author names on the command line: a solution and a workload of its definition."""

from __future__ import annotations

import difflib
from pathlib import Path

from pydantic import ValidationError

from kernelmill.dataset import Dataset
from kernelmill.evaluator.pack import pack
from kernelmill.trace_schema import Definition, Solution, Workload
from kernelmill.trace_schema.errors import DatasetError, SubmissionError


def solution_of(dataset: Dataset, named: str) -> Solution:
    """A Solution file, a folder of sources with a solution.json, or else the name of one in the dataset."""
    path = Path(named)
    if path.is_dir():
        return pack(path)
    if not path.is_file():
        return dataset.solution(named)
    try:
        return Solution.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise SubmissionError(f"{path} is not a Solution: {error.errors(include_url=False)[0]['msg']}") from error


def workload_of(dataset: Dataset, definition: Definition, uuid: str | None) -> Workload:
    """The workload of that uuid, or the definition's first one."""
    workloads = list(dataset.workloads(definition))
    if not workloads:
        raise DatasetError(f"{definition.name} has no workload in {dataset.root}; add one, or name another dataset")
    found = workloads if uuid is None else [workload for workload in workloads if workload.uuid == uuid]
    if not found:
        near = difflib.get_close_matches(uuid or "", [w.uuid for w in workloads], n=3, cutoff=0.0)
        raise DatasetError(f"{definition.name} has no workload {uuid!r}; it has {len(workloads)}, such as {near[0]}")
    return found[0]
