"""Many devices of this host: a process owns each, and all take their units from one queue."""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Iterator, Sequence

from kernelmill.evaluator.executors.base import OPEN_NAMED, SILENCE_S, Charge, Seen, Stop, Unit, lost, never
from kernelmill.evaluator.executors.process import OWNER, OwnerLost, OwnerProcess
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.evaluator.runner import Event
from kernelmill.trace_schema.errors import InternalError

POLL_S = 0.5


class LocalExecutor:
    """One owner for each device named. Raises InternalError if one can't be opened, or if they are not alike.

    `owner` is the module that each owner runs.
    """

    def __init__(
        self,
        devices: Sequence[str],
        options: JudgeOptions,
        *,
        opener: str = OPEN_NAMED,
        owner: str = OWNER,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._owners: list[OwnerProcess] = []
        try:
            for device in devices:
                self._owners.append(OwnerProcess(Charge(device, options, opener), owner=owner, silence_s=silence_s))
            self.seen = _alike({process.device: process.ready() for process in self._owners})
        except InternalError:
            self.close()
            raise

    @property
    def share(self) -> int:
        return len(self._owners)

    def run(self, units: Sequence[Unit], stop: Stop | None = None) -> Iterator[Event]:
        """All is built before the first clock runs: a compiler beside it would disturb it.

        A run that is left early ends the owners that are at work, and whatever they started.
        """
        left = list(units)
        try:
            for do in ("build", "judge"):
                yield from self._round(do, left, stop or never)
        finally:
            self._end([owner for owner in self._owners if owner.unit])

    def close(self) -> None:
        """Also in the midst of a run, which then has no owners left."""
        self._end(list(self._owners))

    def _end(self, owners: list[OwnerProcess]) -> None:
        for owner in owners:
            self._owners.remove(owner)
            owner.close()

    def _round(self, do: str, left: list[Unit], stop: Stop) -> Iterator[Event]:
        """Each unit once. One whose owner is lost is told of, and taken out of `left`."""
        waiting = deque(left)
        while (waiting or any(owner.unit for owner in self._owners)) and not stop():
            for owner in self._owners:
                if waiting and owner.unit is None:
                    owner.order(do, waiting.popleft())
            if not self._owners:
                yield from (lost(unit, "no owner of a device is left") for unit in waiting)
                left.clear()
                return
            select.select(self._owners, [], [], POLL_S)
            for owner in list(self._owners):
                if owner in self._owners:  # unless it was closed where the last event was told
                    yield from self._hear(owner, left)

    def _hear(self, owner: OwnerProcess, left: list[Unit]) -> Iterator[Event]:
        unit = owner.unit
        try:
            messages = owner.read()
        except OwnerLost as error:
            self._end([owner])
            yield self._farewell(unit, str(error), left)
            return
        yield from (message.event for message in messages if message.event is not None)

    def _farewell(self, unit: Unit | None, why: str, left: list[Unit]) -> Event:
        if unit is None:
            return Event("harness_error", f"{why}; the other devices go on without it")
        left.remove(unit)
        return lost(unit, why)


def _alike(seen: dict[str, Seen]) -> Seen:
    """What all say. A queue shared by unlike devices would leave to chance what is judged on which."""
    if len(set(seen.values())) > 1:
        models = ", ".join(f"{device} is {each.model}" for device, each in seen.items())
        raise InternalError(f"the devices of one run must be alike, but {models}; run once for each model")
    return next(iter(seen.values()))
