"""A host that is slow to freeze a worker gives it no time to finish its work unseen.

Between the answer, which stops the clock, and the freeze other threads of the worker run on for free. What lies in the
output when the clock stops is what counts, even if it is no longer poison and even if it is right a moment later.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kernelmill.evaluator.sandbox import probe, tree
from kernelmill.trace_schema import Verdict
from tests.submissions import corpus
from tests.submissions.judging import open_bench

SLOW_S = 0.05
"""Many times what the late work takes."""


@pytest.fixture
def slow_freeze(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (tree.Cgroup, tree.SignalTree):
        freeze = kind.freeze

        def slowly(self: tree.Tree, freeze=freeze) -> None:  # type: ignore[no-untyped-def]
            time.sleep(SLOW_S)
            freeze(self)

        monkeypatch.setattr(kind, "freeze", slowly)


@pytest.mark.usefixtures("slow_freeze")
@pytest.mark.parametrize("name", ["late_thread", "late_over_ones"])
def test_work_after_the_answer_is_seen_though_it_ends_before_the_freeze(name: str, tmp_path: Path) -> None:
    if reason := probe():
        pytest.skip(reason)
    with open_bench(tmp_path) as (bench, _):
        found = bench.judgement(corpus.load_case(corpus.CASES / name), "cheat")
    assert set(found.verdicts) <= {Verdict.CHEAT_DETECTED, Verdict.INCORRECT_NUMERICAL}, found.told
