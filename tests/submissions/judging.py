"""Puts the corpus before the real judge, several solutions of one definition at a time, as workers cost most to start."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kernelmill.evaluator import JudgeOptions, evaluate
from kernelmill.evaluator.sandbox import Limits
from kernelmill.trace_schema import Solution, Trace, Verdict
from kernelmill.trace_schema.errors import KernelMillError
from tests.submissions.corpus import Case, CorpusDataset, Side, write_dataset

TABLE = 4
"""Solutions judged side by side."""
GAIN = 1.5
"""Two equal kernels measured on a busy machine may differ by this factor; a cheat that gains, gains more."""


class Entry(NamedTuple):
    """One side of one case, ready to be judged."""

    case: Case
    side: Side
    solution: Solution


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the judge said, workload by workload; or the error it raised, which is never a solution's verdict."""

    traces: tuple[Trace, ...] = ()
    error: str = ""

    @property
    def verdicts(self) -> list[Verdict]:
        return [trace.evaluation.effective_verdict for trace in self.traces if trace.evaluation]

    @property
    def ratio(self) -> float:
        """The best ratio to the baseline on any workload; 0 where nothing was timed."""
        statistics = [trace.evaluation.statistics for trace in self.traces if trace.evaluation]
        return max((found.ratio or 0.0 for found in statistics if found), default=0.0)

    @property
    def told(self) -> str:
        """Verdicts and reasons, for a person."""
        reasons = [f"{t.evaluation.effective_verdict}: {t.evaluation.reason}" for t in self.traces if t.evaluation]
        return self.error or "; ".join(reasons)


@dataclass(slots=True)
class Bench:
    """Judges entries when first asked for one of them, together with their neighbours."""

    corpus: CorpusDataset
    options: JudgeOptions
    answer_port: int
    _waiting: list[Entry] = field(default_factory=list)
    _known: dict[str, Judgement] = field(default_factory=dict)

    def expect(self, wanted: Iterable[tuple[Case, Side]]) -> None:
        """Announce what will be asked for."""
        for case, side in wanted:
            self._waiting.append(self.entry(case, side))

    def entry(self, case: Case, side: Side) -> Entry:
        raw = case.raw_solution(side, answer_port=self.answer_port)
        return Entry(case, side, Solution.model_validate(raw))

    def judge(self, case: Case, side: Side) -> Judgement:
        entry = self.entry(case, side)
        key = entry.solution.hash()
        if key not in self._known:
            for _ in range(case.runs - 1):
                self._evaluate(case.definition, [entry])
            self._judge_together(self._neighbours(entry))
        return self._known[key]

    def _neighbours(self, entry: Entry) -> list[Entry]:
        """Up to TABLE entries of the same definition that nobody has judged yet, this one first."""
        chosen = {entry.solution.hash(): entry}
        for other in self._waiting:
            fits = other.case.definition == entry.case.definition and other.case.runs == 1 == entry.case.runs
            if fits and len(chosen) < TABLE and other.solution.hash() not in self._known:
                chosen.setdefault(other.solution.hash(), other)
        return list(chosen.values())

    def _judge_together(self, entries: Sequence[Entry]) -> None:
        judged = self._evaluate(entries[0].case.definition, entries)
        for entry in entries:
            found = judged[entry.solution.name]
            if found.error and len(entries) > 1:  # whose error is it?
                found = self._evaluate(entry.case.definition, [entry])[entry.solution.name]
            self._known[entry.solution.hash()] = found

    def _evaluate(self, definition: str, entries: Sequence[Entry]) -> dict[str, Judgement]:
        traces: dict[str, list[Trace]] = {entry.solution.name: [] for entry in entries}
        error = ""
        judging = evaluate(
            self.corpus.definitions[definition],
            [entry.solution for entry in entries],
            self.corpus.workloads[definition],
            device="cpu",
            dataset=self.corpus.dataset,
            options=self.options,
        )
        try:
            for trace in judging:
                traces[trace.solution or ""].append(trace)
        except KernelMillError as caught:
            error = f"{type(caught).__name__}: {caught}"
        return {name: Judgement(tuple(found), error) for name, found in traces.items()}


def fault(case: Case, side: Side, found: Judgement, honest: Judgement | None) -> str:
    """Why this is not what the case demands, or "". `honest`: the twin's judgement, where a gain has to be excluded."""
    if found.error or len(found.traces) < 2:
        return f"judged {len(found.traces)} of 2 workloads; {found.told}"
    allowed = case.expect if side == "cheat" else (Verdict.PASSED,)
    if any(verdict not in allowed for verdict in found.verdicts):
        return f"expected {' or '.join(allowed)}, got {found.told}"
    if honest is not None and found.ratio > GAIN * max(honest.ratio, 1e-9) and Verdict.PASSED in found.verdicts:
        return f"PASSED at {found.ratio:.2f} times the baseline, its twin at {honest.ratio:.2f}"
    return ""


def corpus_options(cache: Path) -> JudgeOptions:
    """Quick, with enough calls that a cheat which behaves ten times is caught, and limits that a small machine can hold."""
    limits = Limits(memory_bytes=4 << 30, processes=256, scratch_bytes=256 << 20)
    return JudgeOptions(
        sessions=1, pairs=10, pairs_min=10, timeout_s=4.0, start_timeout_s=30.0, limits=limits, cache=cache
    )


@contextmanager
def open_bench(root: Path) -> Iterator[tuple[Bench, list[str]]]:
    """A bench whose files lie below `root`, and who connected to the answer server that cheats try to reach."""
    visitors: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_note_visitors, args=(server, visitors), daemon=True).start()
        port = server.getsockname()[1]
        yield Bench(write_dataset(root / "dataset"), corpus_options(root / "builds"), port), visitors


def _note_visitors(server: socket.socket, visitors: list[str]) -> None:
    while True:
        try:
            peer, address = server.accept()
        except OSError:  # closed: the bench is done
            return
        visitors.append(str(address))
        peer.close()
