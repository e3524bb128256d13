"""A contestant's seat in one session of bursts: its worker, its own output memory, every rule checked."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernelmill.evaluator.builders import Artifact
from kernelmill.evaluator.burst.board import Board
from kernelmill.evaluator.burst.layout import Region
from kernelmill.evaluator.client import RequestFailed, WorkerLost
from kernelmill.evaluator.devices import Device
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.evaluator.sandbox import Sandbox
from kernelmill.evaluator.seat import BREATH_S, FAILURE_VERDICTS, Rejected, WorkerSeat, differ, last_line
from kernelmill.evaluator.worker import DEVICE
from kernelmill.trace_schema import Verdict

if TYPE_CHECKING:
    import torch

PEEKS = 4096
"""Words of each output that are looked at the moment a burst is done."""
WROTE_INPUTS = "inputs: wrote into memory that it may only read"
MIN_POISONED_BITS = 32
"""Words narrower than this equal the poison by chance, so only an output that holds nothing else counts."""


class Played(NamedTuple):
    """One burst that kept every rule; whether its outputs are right is another question."""

    seconds: float
    """From the word to go until the device did the judge's own work again."""
    outputs: Mapping[str, torch.Tensor]
    """[calls, *shape] by name: the judge's own copies."""


class BurstSeat(WorkerSeat):
    """A seat whose worker plays bursts."""

    def __init__(self, artifact: Artifact, sandbox: Sandbox, options: JudgeOptions, device: Device) -> None:
        super().__init__(artifact, sandbox, options, {DEVICE: device.name})
        self._device = device
        self._region: Region | None = None
        self.captured = True
        """Whether the bursts of this workload are graphs."""

    def reserve(self, capacity: int) -> None:
        """Own so much output memory for the whole sitting."""
        self._region = Region(self._device, capacity, writable=True)

    def prepare(self, board: Board) -> None:
        """Start if need be, and lend this workload's memory. Raises Rejected."""
        assert self._region is not None
        self._board = board
        layout = board.output_layout()
        self._region.adopt(layout)
        board.restore(self._region, max(board.lengths))
        self._draw_sites()
        try:
            worker = self._loaded()
            request, fds = board.request(self._region, layout, passed=self._artifact.destination_passing)
            self._device.synchronize()
            self.captured = worker.bind_bursts(request, fds)
        except RequestFailed as error:
            self.drop()
            raise _refused(error) from error
        except WorkerLost as error:
            raise self._lost(error) from error

    def _draw_sites(self) -> None:
        """Where to peek: everywhere in little outputs, else at secret words, and the last of the last slot."""
        import torch

        assert self._region is not None
        self._words = {name: self._region.words(name) for name in self._board.output_names}
        self._sites = {}
        for name, words in self._words.items():
            rows = torch.randint(len(words), (PEEKS,), device=words.device)
            columns = torch.randint(max(1, words.shape[1]), (PEEKS,), device=words.device)
            rows[0], columns[0] = -1, max(0, words.shape[1] - 1)  # modulo a burst's length, its last slot
            self._sites[name] = (rows, columns)

    def play(self, length: int, *, audit: bool) -> Played:
        """One burst of board length number `length`. `audit`: look again later whether somebody still writes."""
        assert self._worker is not None and self._region is not None
        worker, board = self._worker, self._board
        count = board.lengths[length]
        try:
            worker.arm(0, length)
            board.restore(self._region, count)
            poison = self._poison(count)
            board.expose(count)
            how = worker.release(self._options.timeout_s)
            peeked = self._peek(count)
            seconds = time.perf_counter() - worker.went_at
            failure = how()
            worker.freeze()
            limit = worker.limit_hit()
        except WorkerLost as error:
            raise self._lost(error) from error
        if failure is not None:
            raise Rejected(FAILURE_VERDICTS.get(failure.stage, Verdict.RUNTIME_ERROR), last_line(failure), worker.log)
        if limit is not None:
            raise Rejected(Verdict.RESOURCE_EXCEEDED, f"exceeded its {limit} limit", worker.log)
        outputs = self._snapshot(count)
        self._check(count, poison, peeked, outputs, audit)
        return Played(seconds, outputs)

    def _poison(self, count: int) -> int:
        """Fill the outputs with a pattern never used before."""
        poison = int.from_bytes(os.urandom(7), "little")
        for words in self._words.values():
            words[:count].fill_(_narrow(poison, words))
        return poison

    def _peek(self, count: int) -> list[torch.Tensor]:
        """Some words of each output, and with them the moment at which the device is the judge's again."""
        found = [words[sites[0].remainder(count), sites[1]] for words, sites in self._looks()]
        self._device.synchronize()
        return found

    def _looks(self) -> list[tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]]:
        return [(words, self._sites[name]) for name, words in self._words.items() if words.shape[1]]

    def _snapshot(self, count: int) -> dict[str, torch.Tensor]:
        assert self._region is not None
        places = zip(self._board.case.outputs, self._board.case.stored_outputs, strict=True)
        return {output.name: self._region.values(place.name)[:count].clone() for output, place in places}

    def _check(
        self,
        count: int,
        poison: int,
        peeked: Sequence[torch.Tensor],
        outputs: Mapping[str, torch.Tensor],
        audit: bool,
    ) -> None:
        assert self._worker is not None
        log = self._worker.log
        guards, inputs, late, unwritten = self._found(count, poison, peeked)
        if guards:
            raise Rejected(Verdict.CHEAT_DETECTED, "guard_band: wrote outside its outputs", log)
        if inputs:
            raise Rejected(Verdict.CHEAT_DETECTED, WROTE_INPUTS, log)
        if late:
            raise Rejected(Verdict.CHEAT_DETECTED, "async_output: wrote outputs after it had said done", log)
        if audit or unwritten:
            time.sleep(BREATH_S)
            later = self._snapshot(count)
            if any(differ(outputs[name], later[name]) for name in outputs):
                raise Rejected(Verdict.CHEAT_DETECTED, "async_output: outputs changed after it had said done", log)
        if unwritten:
            raise Rejected(Verdict.INCORRECT_NUMERICAL, f"left {unwritten} words of its outputs unwritten", log)

    def _found(self, count: int, poison: int, peeked: Sequence[torch.Tensor]) -> tuple[int, int, int, int]:
        """How much is wrong: guards, inputs, words changed late, words never written. One wait for all of it."""
        import torch

        assert self._region is not None
        now = [words[sites[0].remainder(count), sites[1]] for words, sites in self._looks()]
        groups = (
            list(self._region.broken_guards()),
            list(self._board.altered(count)),
            [(old != new).any() for old, new in zip(peeked, now, strict=True)],
            list(self._unwritten(count, poison)),
        )
        none = torch.zeros((), dtype=torch.int64, device=self._region.buffer.raw.device)
        totals = [sum((flag.long() for flag in group), start=none) for group in groups]
        guards, inputs, late, unwritten = torch.stack(totals).tolist()
        return int(guards), int(inputs), int(late), int(unwritten)

    def _unwritten(self, count: int, poison: int) -> Iterator[torch.Tensor]:
        """How many words of each output were never written."""
        for words in self._words.values():
            same = words[:count] == _narrow(poison, words)
            if words.element_size() * 8 < MIN_POISONED_BITS:
                same = same.all(dim=1)
            yield same.sum()

    def close(self) -> None:
        self.drop()
        if self._region is not None:
            self._region.close()
            self._region = None


def _narrow(poison: int, words: torch.Tensor) -> int:
    """As much of the pattern as fits into a word."""
    bits = 8 * words.element_size()
    return poison & ((1 << (bits - 1)) - 1) if bits < 64 else poison


def _refused(error: RequestFailed) -> Rejected:
    verdict = FAILURE_VERDICTS.get(error.failure.stage, Verdict.RUNTIME_ERROR)
    return Rejected(verdict, f"loading or its first call failed: {last_line(error.failure)}", error.log)
