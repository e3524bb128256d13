"""The process that owns one device: opens it and judges unit after unit on it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from importlib import import_module

from kernelmill.dataset import Dataset
from kernelmill.evaluator.devices import Device
from kernelmill.evaluator.executors.base import Charge, Seen, Unit
from kernelmill.evaluator.executors.serve import Follow, serve
from kernelmill.evaluator.plan import Job
from kernelmill.evaluator.run import Forge
from kernelmill.evaluator.runner import Event, Runner
from kernelmill.trace_schema.errors import DatasetError

KEPT = 4
"""Datasets that an owner keeps open: a service brings each submission in one of its own."""


def main() -> None:
    serve(_take)


def _take(charge: Charge) -> tuple[Seen, Follow]:
    device = resolve(charge.opener)(charge.device)
    return Seen(device.kind, device.model), Owner(Forge(charge.options, device)).follow


class Owner:
    """What is kept from unit to unit: the datasets used last, and what was built of them."""

    def __init__(self, forge: Forge) -> None:
        self._forge = forge
        self._runners: OrderedDict[str, tuple[Dataset, Runner]] = OrderedDict()

    def follow(self, do: str, unit: Unit) -> Iterator[Event]:
        try:
            dataset, runner = self._at(unit.dataset)
            job = job_of(dataset, unit)
        except DatasetError as error:
            yield Event("dataset_error", f"{unit}: {error}")
            return
        yield from runner.build([job]) if do == "build" else runner.run([job])

    def _at(self, path: str) -> tuple[Dataset, Runner]:
        if path not in self._runners:
            dataset = Dataset.open(path)
            self._runners[path] = dataset, Runner(dataset, self._forge, save=False)
        self._runners.move_to_end(path)
        while len(self._runners) > KEPT:
            self._runners.popitem(last=False)
        return self._runners[path]


def job_of(dataset: Dataset, unit: Unit) -> Job:
    """Raises DatasetError for what this process does not find in the dataset."""
    definition = dataset.definition(unit.definition)
    by_uuid = {workload.uuid: workload for workload in dataset.workloads(definition)}
    missing = [uuid for uuid in unit.workloads if uuid not in by_uuid]
    if missing:
        raise DatasetError(f"{dataset.root} has no workload {missing[0]} of {definition.name}; is it the same dataset?")
    solutions = [dataset.solution(name) for name in unit.solutions]
    done = frozenset((solution, workload) for solution, workload in unit.done)
    return Job(definition, solutions, [by_uuid[uuid] for uuid in unit.workloads], done)


def resolve(opener: str) -> Callable[[str], Device]:
    module, _, function = opener.partition(":")
    found: Callable[[str], Device] = getattr(import_module(module), function)
    return found


if __name__ == "__main__":
    main()
