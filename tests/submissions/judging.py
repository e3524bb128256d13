"""Puts the corpus before the real judge: several solutions of one definition at a time, as workers cost most to start,
and two such tables at a time, as starting them takes one core each.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from kernelmill.evaluator import JudgeOptions, evaluate
from kernelmill.evaluator.sandbox import Limits
from kernelmill.trace_schema import Solution, Trace, Verdict
from kernelmill.trace_schema.errors import KernelMillError
from tests.submissions.corpus import SIDES, Case, CorpusDataset, Side, write_dataset

PLACES = 4
"""Solutions at one table."""
TABLES = 2
GAIN = 1.5
"""On a busy machine the intervals of two equal kernels may be this far apart; a cheat that gains, gains more."""
SWITCH_S = 1e-4
"""Between the threads of this process: where one judges, the other must not keep it from its clock for milliseconds."""
ATTEMPTS = 3
"""How often a cheat has to gain before it is believed: what other processes do to one table they don't do to three."""


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
    def ratios(self) -> list[tuple[float, float]]:
        """The interval of the ratio to the baseline, workload by workload, where the solution was timed."""
        statistics = [trace.evaluation.statistics for trace in self.traces if trace.evaluation]
        return [found.ratio_ci95 for found in statistics if found and found.ratio_ci95]

    @property
    def told(self) -> str:
        """Verdicts and reasons, for a person."""
        reasons = [f"{t.evaluation.effective_verdict}: {t.evaluation.reason}" for t in self.traces if t.evaluation]
        return self.error or "; ".join(reasons)


class Bench:
    """Judges all that was announced, in the background; `judgement` waits for one of them."""

    def __init__(self, corpus: CorpusDataset, options: JudgeOptions, answer_port: int) -> None:
        self._corpus = corpus
        self._options = options
        self._answer_port = answer_port
        sys.setswitchinterval(SWITCH_S)
        self._pool = ThreadPoolExecutor(TABLES)
        self._coming: dict[str, Future[dict[str, Judgement]]] = {}

    def announce(self, wanted: Iterable[tuple[Case, Side]]) -> None:
        entries: dict[str, Entry] = {}
        for case, side in wanted:
            entry = self._entry(case, side)
            entries.setdefault(entry.solution.hash(), entry)
        for table in seating(entries.values()):
            coming = self._pool.submit(self._judge, table)
            self._coming.update({entry.solution.hash(): coming for entry in table})

    def judgement(self, case: Case, side: Side) -> Judgement:
        key = self._entry(case, side).solution.hash()
        if key not in self._coming:
            self.announce([(case, side)])
        return self._coming[key].result()[key]

    def again(self, case: Case) -> tuple[Judgement, Judgement]:
        """The cheat and its twin at a table of their own, anew."""
        entries = [self._entry(case, side) for side in SIDES]
        judged = self._evaluate(entries)
        cheat, honest = (judged[entry.solution.hash()] for entry in entries)
        return cheat, honest

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _entry(self, case: Case, side: Side) -> Entry:
        raw = case.raw_solution(side, answer_port=self._answer_port)
        return Entry(case, side, Solution.model_validate(raw))

    def _judge(self, table: Sequence[Entry]) -> dict[str, Judgement]:
        for _ in range(table[0].case.runs - 1):
            self._evaluate(table)
        judged = self._evaluate(table)
        if len(table) > 1 and any(found.error for found in judged.values()):  # whose error is it?
            for entry in table:
                judged |= self._evaluate([entry])
        return judged

    def _evaluate(self, table: Sequence[Entry]) -> dict[str, Judgement]:
        """By hash. An error ends the whole table's judging."""
        definition = table[0].case.definition
        traces: dict[str, list[Trace]] = {entry.solution.name: [] for entry in table}
        error = ""
        judging = evaluate(
            self._corpus.definitions[definition],
            [entry.solution for entry in table],
            self._corpus.workloads[definition],
            device="cpu",
            dataset=self._corpus.dataset,
            options=self._options,
        )
        try:
            for trace in judging:
                traces[trace.solution or ""].append(trace)
        except KernelMillError as caught:
            error = f"{type(caught).__name__}: {caught}"
        return {entry.solution.hash(): Judgement(tuple(traces[entry.solution.name]), error) for entry in table}


def seating(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Tables of one definition each. A case that is judged more than once sits alone."""

    def order(entry: Entry) -> tuple[str, int]:
        return entry.case.definition, entry.case.runs

    for (_, runs), group in groupby(sorted(entries, key=order), key=order):
        together = list(group)
        places = PLACES if runs == 1 else 1
        yield from (together[start : start + places] for start in range(0, len(together), places))


def examine(bench: Bench, case: Case, side: Side) -> tuple[Judgement, str]:
    """What the judge said, and why this is not what the case demands, or ""."""
    found = bench.judgement(case, side)
    if side == "honest" or case.gain:
        return found, fault(case, side, found, None)
    honest = bench.judgement(case, "honest")
    for _ in range(ATTEMPTS - 1):
        if not gained(found, honest):
            break
        found, honest = bench.again(case)
    return found, fault(case, side, found, honest)


def fault(case: Case, side: Side, found: Judgement, honest: Judgement | None) -> str:
    """Why this is not what the case demands, or "". `honest`: the twin's judgement, where a gain has to be excluded."""
    if found.error or len(found.traces) < 2:
        return f"judged {len(found.traces)} of 2 workloads; {found.told}"
    allowed = case.expect if side == "cheat" else (Verdict.PASSED,)
    if any(verdict not in allowed for verdict in found.verdicts):
        return f"expected {' or '.join(allowed)}, got {found.told}"
    if case.tell and any(passed_with(trace, case.tell) for trace in found.traces):
        return f"PASSED although it said {case.tell!r}"
    if honest is not None and gained(found, honest):
        return f"PASSED at {found.ratios} times the baseline, its twin at {honest.ratios}"
    return ""


def passed_with(trace: Trace, words: str) -> bool:
    found = trace.evaluation
    return found is not None and found.effective_verdict is Verdict.PASSED and words in found.log


def gained(found: Judgement, honest: Judgement) -> bool:
    """Whether the cheat is surely faster than its twin on every workload."""
    pairs = list(zip(found.ratios, honest.ratios, strict=False))
    return bool(pairs) and all(mine[0] > GAIN * twins[1] for mine, twins in pairs)


def corpus_options(cache: Path) -> JudgeOptions:
    """Quick, with enough calls to catch a cheat that behaves ten times, and limits that a small machine can hold."""
    limits = Limits(memory_bytes=2 << 30, processes=128, scratch_bytes=128 << 20)
    return JudgeOptions(
        sessions=1, pairs=10, pairs_min=10, timeout_s=6.0, start_timeout_s=30.0, limits=limits, cache=cache
    )


@contextmanager
def open_bench(root: Path) -> Iterator[tuple[Bench, list[str]]]:
    """A bench whose files lie below `root`, and who connected to the answer server that cheats try to reach."""
    visitors: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_note_visitors, args=(server, visitors), daemon=True).start()
        port = server.getsockname()[1]
        bench = Bench(write_dataset(root / "dataset"), corpus_options(root / "builds"), port)
        try:
            yield bench, visitors
        finally:
            bench.close()


def _note_visitors(server: socket.socket, visitors: list[str]) -> None:
    while True:
        try:
            peer, address = server.accept()
        except OSError:  # closed: the bench is done
            return
        visitors.append(str(address))
        peer.close()
