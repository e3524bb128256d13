"""The process that owns one device: opens it, judges unit after unit, and says what happens, one JSON line at a time.

Its stdin is a line with the charge, then one order a line; its end means that nobody listens any more.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TextIO

from kernelmill.dataset import Dataset
from kernelmill.evaluator.devices import Device
from kernelmill.evaluator.executors.base import Charge, Message, Seen, Unit
from kernelmill.evaluator.plan import Job
from kernelmill.evaluator.run import Forge
from kernelmill.evaluator.runner import Event, Runner
from kernelmill.trace_schema.errors import DatasetError, KernelMillError

Say = Callable[[Message], None]


def main() -> None:
    lines, say = _channel()
    try:
        charge = Charge.from_json(lines.readline())
        device = resolve(charge.opener)(charge.device)
        owner = Owner(Forge(charge.options, device))
    except KernelMillError as error:
        say(Message("refused", str(error)))
        return
    say(Message("ready", seen=Seen(device.kind, device.model)))
    orders: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(lines, orders), daemon=True).start()
    while True:
        order = json.loads(orders.get())
        for event in owner.follow(order["do"], Unit.from_json(order["unit"])):
            say(Message("event", event=event))
        say(Message("done"))


class Owner:
    """What is kept from unit to unit: opened datasets and what was built."""

    def __init__(self, forge: Forge) -> None:
        self._forge = forge
        self._runners: dict[str, tuple[Dataset, Runner]] = {}

    def follow(self, do: str, unit: Unit) -> Iterator[Event]:
        """`do` is "build", before any clock runs anywhere on this host, or "judge"."""
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


def _channel() -> tuple[TextIO, Say]:
    """What were stdin and stdout. Whatever else reads finds nothing from now on, and whatever else prints, prints to
    stderr: a compiler must not take our orders, nor a library speak for us.
    """
    lines, out = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)

    def say(message: Message) -> None:
        out.write(message.to_json() + "\n")
        out.flush()

    return lines, say


def _listen(lines: TextIO, orders: queue.SimpleQueue[str]) -> None:
    """A blocked read costs a running clock nothing. Workers die with this process, and its device becomes free."""
    for line in lines:
        orders.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
