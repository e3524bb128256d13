"""Replays a request trace on one replica and keeps what every step computed.

Kept are, for each step, who computed how many tokens and sees how many; and for each admission its block table, which
only grows while the request runs. So any step's page table can be read off later.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from kernelmill.dataset.derive.blocks import BlockPool
from kernelmill.dataset.derive.deployment import Deployment
from kernelmill.dataset.derive.request import Request
from kernelmill.dataset.derive.scheduler import Scheduled, Scheduler, Served

if TYPE_CHECKING:
    from numpy.typing import NDArray

Ints: TypeAlias = "NDArray[Any]"


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass; the arrays have one element a sequence, in the order of the batch."""

    start_s: float
    admissions: Ints
    new: Ints
    """Tokens computed."""
    kv: Ints
    """Tokens that the last of them sees, itself included."""
    sampled: int
    """Sequences that get a next token."""


@dataclass(slots=True)
class Replay:
    """Everything that happened."""

    block_size: int
    steps: list[Step] = field(default_factory=list)
    tables: list[array[int]] = field(default_factory=list)
    """Block table of each admission when it ended."""
    slots: list[int] = field(default_factory=list)
    """Each admission's place among the running: where a recurrent state would live."""
    refused: int = 0
    """Requests too long for the replica."""
    preemptions: int = 0
    finished: list[tuple[int, float, float]] = field(default_factory=list)
    """(position in the trace, when the first token came, when the last)."""

    def pages(self, admission: int, tokens: int) -> array[int]:
        return self.tables[admission][: -(-tokens // self.block_size)]


class _Clockwork:
    """The loop's state: when requests come, who runs, which slot is free."""

    def __init__(self, requests: Sequence[Request], deployment: Deployment, block_size: int, until_s: float) -> None:
        self.requests, self.deployment, self.until_s = requests, deployment, until_s
        pool = BlockPool(deployment.pool_tokens // block_size, block_size)
        self.scheduler = Scheduler(pool, deployment.limits)
        self.found = Replay(block_size)
        self.now = 0.0
        self.first: dict[int, float] = {}
        self._coming = [(one.arrival_s, number) for number, one in enumerate(requests) if one.after is None]
        heapq.heapify(self._coming)
        self._next: dict[int, list[int]] = {}
        for number, one in enumerate(requests):
            if one.after is not None:
                self._next.setdefault(one.after, []).append(number)
        self._free_slots: list[int] = []
        self._slots = 0

    def run(self) -> Replay:
        while self.now < self.until_s:
            self._arrive()
            chosen = self.scheduler.step()
            self.found.preemptions += len(self.scheduler.preempted)
            self._end_admissions(self.scheduler.preempted)
            if chosen:
                for served in self.scheduler.admitted:
                    self._begin_admission(served)
                self._run(chosen)
            elif self._coming:
                self.now = max(self.now, self._coming[0][0])
            else:
                break
        self._end_admissions([(served, served.blocks) for served in self.scheduler.running])
        return self.found

    def _arrive(self) -> None:
        while self._coming and self._coming[0][0] <= self.now:
            _, number = heapq.heappop(self._coming)
            if not self.scheduler.add(number, self.requests[number]):
                self.found.refused += 1
                self._done(number)

    def _done(self, number: int) -> None:
        for follower in self._next.get(number, ()):
            heapq.heappush(self._coming, (self.now + self.requests[follower].arrival_s, follower))

    def _begin_admission(self, served: Served) -> None:
        served.admission = len(self.found.tables)
        if self._free_slots:
            slot = self._free_slots.pop()
        else:
            slot, self._slots = self._slots, self._slots + 1
        self.found.tables.append(array("i"))
        self.found.slots.append(slot)

    def _end_admissions(self, ended: Sequence[tuple[Served, list[int]]]) -> None:
        for served, blocks in ended:
            self.found.tables[served.admission] = array("i", blocks)
            self._free_slots.append(self.found.slots[served.admission])

    def _run(self, chosen: Scheduled) -> None:
        import numpy as np

        new = np.array([count for _, count in chosen], dtype=np.int32)
        kv = np.array([served.computed + count for served, count in chosen], dtype=np.int32)
        sampling = [served for served, count in chosen if served.computed + count == served.known]
        admissions = np.array([served.admission for served, _ in chosen], dtype=np.int32)
        self.found.steps.append(Step(self.now, admissions, new, kv, len(sampling)))
        wide = new.astype(np.int64)
        pairs = int((wide * kv - wide * (wide - 1) // 2).sum())
        self.now += self.deployment.seconds(int(wide.sum()), int(kv.sum()), pairs)
        for served in sampling:
            self.first.setdefault(served.number, self.now)
        done = self.scheduler.complete(chosen)
        self._end_admissions([(served, served.blocks) for served in done])
        for served in done:
            self.found.finished.append((served.number, self.first[served.number], self.now))
            self._done(served.number)


def replay(
    requests: Sequence[Request], deployment: Deployment, block_size: int = 16, until_s: float = math.inf
) -> Replay:
    """Every step until the last request has left, or until then, idle time skipped. Equal input gives equal steps."""
    return _Clockwork(requests, deployment, block_size, until_s).run()
