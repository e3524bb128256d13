"""Judge one solution on one workload: sessions of paired calls, solution beside baseline, every output looked at.

Every call of a session looks the same from inside. What it is for (dropped as warm-up, verified against the reference,
timed, audited for late work) is drawn by the judge and known to it alone. An output that is not verified against the
reference is compared with the baseline's for the same inputs; where they disagree the reference decides.
"""

from __future__ import annotations

import gc
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernelmill.evaluator.compare.base import Expectation, Finding
from kernelmill.evaluator.inputs import Content
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.evaluator.seat import Played, Rejected, Seat
from kernelmill.evaluator.table import Table, VerifiedSet
from kernelmill.trace_schema import Verdict
from kernelmill.trace_schema.errors import DatasetError

if TYPE_CHECKING:
    import torch


AUDIT_ONE_IN = 3
"""One ordinary call in so many is followed by a breath too, as every verified one is: no breath tells them apart."""


@dataclass(slots=True)
class Outcome:
    """What judging found. `pairs` holds one list a session of (solution seconds, baseline seconds)."""

    verdict: Verdict = Verdict.PASSED
    reason: str = ""
    log: str = ""
    max_absolute_error: float = 0.0
    max_relative_error: float = 0.0
    extra: dict[str, Any] = field(default_factory=dict)
    pairs: list[list[tuple[float, float]]] = field(default_factory=list)
    verified_calls: int = 0
    samples: list[tuple[Expectation, Mapping[str, torch.Tensor]]] = field(default_factory=list)

    def note(self, finding: Finding) -> None:
        self.verified_calls += 1
        self.max_absolute_error = max(self.max_absolute_error, finding.max_absolute_error)
        self.max_relative_error = max(self.max_relative_error, finding.max_relative_error)

    def reject(self, verdict: Verdict, reason: str, log: str) -> None:
        self.verdict, self.reason, self.log = verdict, reason, log
        if verdict is Verdict.INCORRECT_NUMERICAL and self.max_absolute_error == 0.0:
            self.max_absolute_error = self.max_relative_error = float("inf")


class Match:
    """A solution against the baseline on one table."""

    def __init__(self, table: Table, seats: Sequence[Seat], baseline: Sequence[Seat], options: JudgeOptions) -> None:
        self._table = table
        self._seats = seats
        self._baseline = baseline
        self._options = options
        self._owed: list[tuple[VerifiedSet, Played, Played]] = []
        self.outcome = Outcome()

    def play(self, *, timed: bool = True) -> Outcome:
        """All sessions, or as many as it takes to reject. Raises DatasetError if the baseline is at fault."""
        sessions = self._options.sessions if timed else 1
        gc.disable()
        try:
            for number in range(sessions):
                self._session(number, timed)
                self.outcome.log = self._seats[number].log
            self._conclude()
        except Rejected as error:
            self.outcome.reject(error.verdict, error.reason, error.log)
        finally:
            gc.enable()
        self.outcome.samples.clear()
        return self.outcome

    def _session(self, number: int, timed: bool) -> None:
        seat, beside = self._seats[number], self._baseline[number]
        seat.prepare(self._table.case, self._table.inputs, self._table.memory)
        pairs: list[tuple[float, float]] = []
        start = time.monotonic()
        first = self._table.pool[secrets.randbelow(len(self._table.pool))]
        self._pair(seat, beside, first, turn=0)
        self._settle()
        count = self._count(time.monotonic() - start, seat is beside) if timed else len(self._table.pool) - 1
        plan = draw_plan([entry for entry in self._table.pool if entry is not first], count)
        for call, entry in enumerate(plan):
            seconds = self._pair(seat, beside, entry, turn=call + number)
            if call + 1 >= self._options.warmups:
                pairs.append(seconds)
        self._settle()
        if timed:
            self.outcome.pairs.append(pairs)

    def _count(self, first_s: float, alone: bool) -> int:
        """How many more pairs this session plays, given what the first one took. The baseline itself needs few."""
        options = self._options
        affordable = int(options.seconds / options.sessions / max(first_s, 1e-4))
        wanted = options.pairs_min if alone else max(options.pairs_min, min(options.pairs, affordable))
        return wanted + options.warmups - 1

    def _pair(self, seat: Seat, beside: Seat, entry: VerifiedSet | None, turn: int) -> tuple[float, float]:
        table = self._table
        content = entry.content if entry else table.inputs.draw()
        slot = table.deal(content)
        audit = entry is not None or secrets.randbelow(AUDIT_ONE_IN) == 0
        if seat is beside:
            mine = other = seat.play(slot, content, table.flush, audit=audit)
        elif turn % 2:
            other = self._baseline_plays(beside, slot, content)
            mine = seat.play(slot, content, table.flush, audit=audit)
        else:
            mine = seat.play(slot, content, table.flush, audit=audit)
            other = self._baseline_plays(beside, slot, content)
        self._check(mine, other, entry, content)
        return mine.seconds, other.seconds

    def _baseline_plays(self, beside: Seat, slot: int, content: Content) -> Played:
        try:
            return beside.play(slot, content, self._table.flush, audit=False)
        except Rejected as error:
            raise self._baseline_fault(f"{error.verdict}: {error.reason}") from error

    def _baseline_fault(self, detail: str) -> DatasetError:
        case = self._table.case
        return DatasetError(f"the baseline of {case.definition.name} fails on workload {case.workload.uuid}: {detail}")

    def _check(self, mine: Played, other: Played, entry: VerifiedSet | None, content: Content) -> None:
        agreed = self._table.comparator.agree(mine.outputs, other.outputs)
        if entry is not None:
            self._owed.append((entry, mine, other))
            return
        if agreed is False:
            self._verify(self._table.solve(content), mine)
        elif agreed:
            self.outcome.verified_calls += 1
        elif expectation := self._table.expect(content):
            self._owed.append((VerifiedSet(content, expectation), mine, other))

    def _settle(self) -> None:
        """Verify what a session owes, after its calls: a pause after some of them would tell which they were."""
        owed, self._owed = self._owed, []
        for entry, mine, other in owed:
            self._verify(entry.expectation, mine)
            if other is not mine and self._table.first_look(entry):
                finding = entry.expectation.judge(other.outputs)
                if finding.verdict is not None:
                    raise self._baseline_fault(finding.reason)

    def _verify(self, expectation: Expectation, mine: Played) -> None:
        finding = expectation.judge(mine.outputs)
        self.outcome.note(finding)
        if finding.verdict is not None:
            raise Rejected(finding.verdict, finding.reason)
        self.outcome.samples.append((expectation, mine.outputs))

    def _conclude(self) -> None:
        finding, self.outcome.extra = self._table.comparator.conclude(self.outcome.samples)
        if finding.verdict is not None:
            raise Rejected(finding.verdict, finding.reason)


def draw_plan(pool: Sequence[VerifiedSet], count: int) -> list[VerifiedSet | None]:
    """`count` calls with the pool's sets at secret places, one of them in the last third; the others get new inputs."""
    plan: list[VerifiedSet | None] = [None] * count
    if not pool or not count:
        return plan
    places = [count - 1 - secrets.randbelow(max(1, count // 3))]
    free = [place for place in range(count) if place != places[0]]
    for _ in pool[1:]:
        if free:
            places.append(free.pop(secrets.randbelow(len(free))))
    for place, entry in zip(places, pool, strict=False):
        plan[place] = entry
    return plan
