"""All contestants of one workload: sessions of rounds, in each of which everybody plays the same inputs.

A round is two bursts, a long and a short one, for every contestant and the baseline, in an order drawn anew (slow ones
play shorter bursts than quick ones). The time of a call is the slope between the two, so that starting, waiting and
switching cancel. A secret few of the calls are verified against the reference; all others are compared with the
baseline's, and where they disagree the reference decides.
"""

from __future__ import annotations

import gc
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from kernelmill.evaluator.burst.board import Board, VerifiedSet
from kernelmill.evaluator.burst.seat import WROTE_INPUTS, BurstSeat, Played
from kernelmill.evaluator.compare.base import Expectation
from kernelmill.evaluator.judge import Outcome
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.evaluator.seat import Rejected
from kernelmill.trace_schema import Verdict
from kernelmill.trace_schema.errors import DatasetError, InternalError

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
SLOW_S = 8e-3
"""Who takes longer for a burst plays shorter ones."""
LEAST_S = 1e-10
"""A slope that noise made nothing of, or less: its logarithm must still exist."""
AUDIT_ONE_IN = 8
"""One burst in so many is looked at again later; the clock itself waits for the device, so late work is timed."""
MAX_SOLVED = 4
"""Of a burst's calls that disagree with the baseline so many are put to the reference."""
MAX_SAMPLED = 8
"""Calls of a burst that are judged one by one where the baseline's outputs say nothing."""
HOG_BYTES = 24 << 30
"""Of device memory; all workers of one solution together need less for any shipped workload."""
LATE_MAX = 0.5
"""Of a contestant's turns so many may begin on a busy device."""


@dataclass
class Contestant:
    """One solution at the board: a seat for each session, and what became of it so far."""

    seats: Sequence[BurstSeat]
    outcome: Outcome = field(default_factory=Outcome)
    out: bool = False
    captured: bool = True
    bursts: tuple[int, int] = (1, 2)
    """Numbers of the short and the long burst that it plays."""
    late: int = 0
    """Turns before which the device did something else than the judge's work."""
    turns: int = 0

    def reject(self, error: Rejected) -> None:
        self.outcome.reject(error.verdict, error.reason, error.log)
        self.out = True


class BurstMatch:
    """Contestants against the baseline, on one board."""

    def __init__(
        self, board: Board, baseline: Contestant, contestants: Sequence[Contestant], options: JudgeOptions
    ) -> None:
        self._board = board
        self._baseline = baseline
        self._others = [one for one in contestants if one is not baseline]
        self._options = options
        self._looked_at: set[int] = set()
        self.seating_s = 0.0
        """Seconds that lending memory took, with the compiling and capturing it made workers do."""

    def play(self) -> None:
        """All sessions; who is rejected plays no more. Raises DatasetError if the baseline is at fault."""
        gc.disable()
        try:
            start = time.monotonic()
            self._seat_all()
            self.seating_s = time.monotonic() - start
            for session in range(self._options.sessions):
                self._session(session)
            for one in (self._baseline, *self._playing):
                self._conclude(one)
        finally:
            gc.enable()

    @property
    def _playing(self) -> list[Contestant]:
        return [one for one in self._others if not one.out]

    def _session(self, session: int) -> None:
        options, board = self._options, self._board
        placed = draw_places(board.pool, options.rounds_min, board.lengths)
        pairs: dict[int, list[tuple[float, float]]] = {id(one): [] for one in (self._baseline, *self._playing)}
        start, rounds = time.monotonic(), 0
        while rounds < self._rounds(start, rounds):
            seconds = self._round(session, placed.get(rounds, {}))
            for one in (self._baseline, *self._playing):
                pairs[id(one)].append((seconds[id(one)], seconds[id(self._baseline)]))
            rounds += 1
        for one in (self._baseline, *self._playing):
            one.outcome.pairs.append(pairs[id(one)])
            one.outcome.log = one.seats[session].log

    def _rounds(self, start: float, rounds: int) -> int:
        """How many rounds this session has: the least, and more while its share of time lasts."""
        options = self._options
        least = options.rounds_min
        if rounds < least:
            return least
        share = options.burst_seconds / options.sessions * (1 + len(self._playing))
        more = rounds < options.burst_pairs and time.monotonic() - start < share
        return rounds + 1 if more else rounds

    def _seat_all(self) -> None:
        """Bind everybody's workers, of all sessions, side by side: compiling and capturing is their own work."""
        board = self._board
        board.contents.draw(max(board.lengths), {})
        board.expose(max(board.lengths))
        seated = [(one, seat) for one in (self._baseline, *self._playing) for seat in one.seats]
        with ThreadPoolExecutor(len(seated)) as pool:
            waits = [pool.submit(seat.prepare, board) for _, seat in seated]
        for (one, seat), wait in zip(seated, waits, strict=True):
            try:
                wait.result()
                one.captured &= seat.captured
            except Rejected as error:
                self._reject(one, error)
        self._find_writers()
        board.scrub()
        self._evict()

    def _find_writers(self) -> None:
        """Seated side by side, nobody can be blamed for what was written: seat one by one who may have, and look."""
        if not self._board.is_altered():
            return
        for one in shuffled(self._playing):
            self._board.mend()
            for seat in one.seats:
                seat.drop()
            self._seat_again(one)
        self._board.mend()

    def _evict(self) -> None:
        """Where memory has become short, find out who holds it by letting go of one contestant's workers at a time."""
        board = self._board
        if not board.is_short:
            return
        free = board.settled_free_bytes()
        for one in shuffled(self._playing):
            if not board.is_short:
                return
            log = one.seats[0].log
            for seat in one.seats:
                seat.drop()
            before, free = free, board.settled_free_bytes()
            if free - before > HOG_BYTES:
                reason = f"exceeded its device memory limit: its workers held {free - before >> 20} MiB"
                one.reject(Rejected(Verdict.RESOURCE_EXCEEDED, reason, log))
                continue
            self._seat_again(one)
            free = board.settled_free_bytes()
        if board.is_short:
            raise InternalError(
                f"only {free >> 20} MiB of the device's memory are left, and no solution holds them; "
                "free it and run again"
            )

    def _seat_again(self, one: Contestant) -> None:
        """By itself, so that what was written meanwhile was written by it."""
        board = self._board
        board.contents.draw(max(board.lengths), {})
        board.expose(max(board.lengths))
        try:
            for seat in one.seats:
                seat.prepare(board)
            if board.is_altered():
                raise Rejected(Verdict.CHEAT_DETECTED, WROTE_INPUTS, one.seats[0].log)
        except Rejected as error:
            board.mend()
            self._reject(one, error)
        board.scrub()

    def _reject(self, one: Contestant, error: Rejected) -> None:
        if one is self._baseline:
            raise self._baseline_fault(f"{error.verdict}: {error.reason}") from error
        one.reject(error)

    def _baseline_fault(self, detail: str) -> DatasetError:
        case = self._board.case
        return DatasetError(f"the baseline of {case.definition.name} fails on workload {case.workload.uuid}: {detail}")

    def _round(self, session: int, placed: Mapping[int, Mapping[int, VerifiedSet]]) -> dict[int, float]:
        """Seconds a call by contestant. `placed`: of each burst, the slots whose content is known."""
        self._evict()
        took: dict[int, dict[int, float]] = {}
        lengths = self._board.lengths
        for number in shuffled(range(len(lengths))):
            players = [one for one in self._playing if number in one.bursts]
            if not players and number not in self._baseline.bursts:
                continue
            known = placed.get(number, {})
            self._board.contents.draw(lengths[number], {slot: entry.content for slot, entry in known.items()})
            for one, played in self._burst(session, number, players):
                took.setdefault(id(one), {})[number] = played.seconds
                self._verify_known(one, played, known)
        return {id(one): self._slope(one, took[id(one)]) for one in (self._baseline, *self._playing)}

    def _slope(self, one: Contestant, took: Mapping[int, float]) -> float:
        """Seconds a call; who is slow plays shorter bursts from now on."""
        short, long = one.bursts
        calls = self._board.lengths[long] - self._board.lengths[short]
        if took[long] > SLOW_S and short > 0:
            one.bursts = (short - 1, long - 1)
        return max(LEAST_S, (took[long] - took[short]) / calls)

    def _burst(self, session: int, number: int, players: Sequence[Contestant]) -> Iterator[tuple[Contestant, Played]]:
        """All who play this burst play the same inputs; then what they gave is held against the baseline's."""
        plays: list[tuple[Contestant, Played]] = []
        for one in shuffled((self._baseline, *players)):
            try:
                plays.append((one, self._turn(one, session, number)))
            except Rejected as error:
                self._reject(one, error)
        by_baseline = next(played for one, played in plays if one is self._baseline)
        for one, played in plays:
            if one is not self._baseline:
                with guarded(one):
                    self._compare(one, played, by_baseline)
            else:
                one.outcome.verified_calls += self._board.lengths[number]
            if not one.out:
                yield one, played

    def _turn(self, one: Contestant, session: int, number: int) -> Played:
        """One burst. The device must be idle when it is over and its worker frozen: or it works on in others' turns."""
        board, seat = self._board, one.seats[session]
        audit = secrets.randbelow(AUDIT_ONE_IN) == 0
        late = board.late
        try:
            played = seat.play(number, audit=audit)
        except Rejected:
            if board.is_busy():
                seat.drop()
            board.mend()
            raise
        finally:
            board.scrub()
        one.late += board.late - late
        one.turns += 1
        if board.is_busy():
            log = seat.log
            seat.drop()
            board.mend()
            raise Rejected(Verdict.SUSPECT, "disturbs: the device went on working after its turn", log)
        return played

    def _compare(self, one: Contestant, played: Played, by_baseline: Played) -> None:
        comparator = self._board.comparator
        agreed = comparator.agree(played.outputs, by_baseline.outputs)
        calls = len(next(iter(played.outputs.values())))
        if agreed:
            one.outcome.verified_calls += calls
        if agreed is None:
            self._sample(one, played, calls)
        if agreed is not False:
            return
        solved = 0
        for slot in shuffled(range(calls)):
            mine, other = (at(outputs, slot) for outputs in (played.outputs, by_baseline.outputs))
            if comparator.agree(mine, other) is False and solved < MAX_SOLVED:
                solved += 1
                self._verify(one, self._board.solve(self._board.contents.held(slot)).expectation, mine)

    def _sample(self, one: Contestant, played: Played, calls: int) -> None:
        """Calls whose outputs differ by right are judged one by one, where that takes no reference."""
        board = self._board
        if board.comparator.needs_reference:
            return
        for slot in shuffled(range(calls))[:MAX_SAMPLED]:
            inputs = board.contents.copy(board.contents.held(slot))
            expectation = board.comparator.prepare(board.case, inputs, None)  # type: ignore[arg-type]
            self._verify(one, expectation, at(played.outputs, slot))

    def _verify_known(self, one: Contestant, played: Played, known: Mapping[int, VerifiedSet]) -> None:
        for slot, entry in known.items():
            if one is not self._baseline:
                with guarded(one):
                    self._verify(one, entry.expectation, at(played.outputs, slot))
            elif id(entry) not in self._looked_at:
                self._looked_at.add(id(entry))
                finding = entry.expectation.judge(at(played.outputs, slot))
                one.outcome.note(finding)
                if finding.verdict is not None:
                    raise self._baseline_fault(finding.reason)

    def _verify(self, one: Contestant, expectation: Expectation, mine: Mapping[str, torch.Tensor]) -> None:
        finding = expectation.judge(mine)
        one.outcome.note(finding)
        if finding.verdict is not None:
            raise Rejected(finding.verdict, finding.reason, one.outcome.log)
        one.outcome.samples.append((expectation, {name: value.clone() for name, value in mine.items()}))

    def _conclude(self, one: Contestant) -> None:
        finding, one.outcome.extra = self._board.comparator.conclude(one.outcome.samples)
        one.outcome.samples.clear()
        if finding.verdict is not None and one is not self._baseline:
            one.reject(Rejected(finding.verdict, finding.reason, one.outcome.log))
        elif one is not self._baseline and one.late > LATE_MAX * one.turns:
            reason = f"early_start: the device was busy before the word to go in {one.late} of its {one.turns} turns"
            one.reject(Rejected(Verdict.SUSPECT, reason, one.outcome.log))


@contextmanager
def guarded(one: Contestant) -> Iterator[None]:
    """What is wrong with one contestant's outputs ends its part, and nobody else's."""
    try:
        yield
    except Rejected as error:
        one.reject(error)


def at(outputs: Mapping[str, torch.Tensor], slot: int) -> dict[str, torch.Tensor]:
    """One call's outputs."""
    return {name: batch[slot] for name, batch in outputs.items()}


def shuffled(items: Sequence[T]) -> list[T]:
    """In an order that nobody can foresee."""
    return sorted(items, key=lambda _: secrets.randbits(32))


def draw_places(
    pool: Sequence[VerifiedSet], rounds: int, lengths: Sequence[int]
) -> dict[int, dict[int, dict[int, VerifiedSet]]]:
    """Round -> burst -> slot -> entry: everybody meets each of the pool once, in the rounds that surely come.

    All play the middle burst, and one of the other two.
    """
    places: dict[int, dict[int, dict[int, VerifiedSet]]] = {}
    for entry in pool:
        bursts = places.setdefault(secrets.randbelow(rounds), {})
        for number in (1,) if secrets.randbelow(2) else (0, 2):
            bursts.setdefault(number, {})[secrets.randbelow(lengths[number])] = entry
    return places
