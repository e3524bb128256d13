"""Specialists of sizes become one solution, which counts only if it beats each of them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import pytest

from kernelmill.agents import loop
from kernelmill.agents.attempt import Attempt, Proposal
from kernelmill.agents.feedback import better_elsewhere, feedback
from kernelmill.agents.judging import LocalJudge
from kernelmill.agents.merging import Merge, Piece, best_by_regime, merged, planned
from kernelmill.agents.outcome import Fidelity, Gate, Outcome, Timing
from kernelmill.agents.strategies.template import Template
from kernelmill.agents.templates.families import spaces
from kernelmill.agents.templates.space import cpu
from kernelmill.evaluator import JudgeOptions
from kernelmill.evaluator.sandbox import probe
from kernelmill.trace_schema import Solution
from kernelmill.trace_schema.errors import InternalError
from tests.agents import toy
from tests.agents.shipped import shipped, small

NAME = "rmsnorm_h4096"
QUICK = JudgeOptions(sessions=1, warmups=1, pairs=4, pairs_min=4, seconds=0.1, verified=2, timeout_s=120)
WORKLOADS = sorted(shipped().workloads(NAME), key=lambda one: one.axes["batch_size"])
ENDS = (WORKLOADS[0], WORKLOADS[-1])
DEFINITION = shipped().definition(NAME)
(SPACE,) = spaces(DEFINITION, "cpu")


def outcome(ratios: Sequence[float], fidelity: Fidelity = "full", speedup: float | None = None) -> Outcome:
    """On the ends, whose calls take the baseline equally long."""
    timings = tuple(
        Timing(
            workload=one.uuid,
            axes=one.axes,
            ms=1 / ratio,
            baseline_ms=1 / (one.weight or 1.0),
            ratio=ratio,
            lo=ratio,
            hi=ratio,
        )
        for one, ratio in zip(ENDS, ratios, strict=True)
    )
    gain = 2 / sum(1 / ratio for ratio in ratios)
    found = gain if speedup is None else speedup
    gate = Gate.PASSED if found > 1 else Gate.SLOWER
    return Outcome(
        gate=gate, fidelity=fidelity, timings=timings, gain=gain, speedup=found, lo=found, hi=found, device_s=1
    )


def attempt(number: int, solution: Solution, ratios: Sequence[float]) -> Attempt:
    return Attempt(number, Proposal(solution), outcome(ratios), event=number)


def pair(kind: str, language: int = 0) -> list[Solution]:
    space = spaces(DEFINITION, kind)[language]
    points = list(space.points())
    return [space.render(points[0]), space.render(points[-1])]


def test_a_model_is_told_where_others_are_ahead() -> None:
    first, second = pair("cpu")
    best, other, like = attempt(0, first, (2.0, 1.0)), attempt(1, second, (1.0, 4.0)), attempt(2, second, (2.02, 3.9))
    told = better_elsewhere(best, [best, other, like])
    large = max(one.axes["batch_size"] for one in ENDS)
    assert told[1:] == [f"- batch_size={large}: 4x as fast as this one: #1 {second.name}"]
    assert better_elsewhere(other, [other, like])[1:] != []
    assert better_elsewhere(best, [best]) == []
    assert f"#1 {second.name}" in feedback("cpu", incumbent=best, rivals=[other])


def test_each_regime_has_its_best_and_a_merge_promises_their_sum() -> None:
    first, second = pair("cpu")
    attempts = [attempt(0, first, (2.0, 1.0)), attempt(1, second, (1.0, 4.0))]
    regimes = best_by_regime(attempts, ENDS, "batch_size")
    assert [best.number for best, _ in regimes.values()] == [0, 1]
    merge = planned(DEFINITION, ENDS, attempts)
    assert merge is not None and merge.specialists == attempts
    assert merge.gain == pytest.approx((1 / 1 + 1 / 4) / (1 / 2 + 1 / 4))
    smallest = ENDS[0].axes["batch_size"]
    assert [piece.most for piece in merge.pieces] == [(1 << smallest.bit_length()) - 1, None]


def test_nothing_is_merged_where_one_is_best_everywhere_or_languages_differ() -> None:
    first, second = pair("cpu")
    assert planned(DEFINITION, ENDS, [attempt(0, first, (2, 3)), attempt(1, second, (1.9, 3))]) is None
    assert planned(DEFINITION, ENDS, [attempt(0, first, (2, 1)), attempt(1, second, (1, 1.01))]) is None
    other = pair("cuda")[0]
    assert planned(DEFINITION, ENDS, [attempt(0, first, (2, 1)), attempt(1, other, (1, 4))]) is None


@pytest.mark.parametrize("language", range(2), ids=("triton", "cuda"))
def test_each_language_is_merged(language: int) -> None:
    first, second = pair("cuda", language)
    pieces = (Piece(63, attempt(0, first, (2, 1))), Piece(None, attempt(1, second, (1, 4))))
    found = merged(DEFINITION, Merge("batch_size", pieces, 1.5))
    assert found == merged(DEFINITION, Merge("batch_size", pieces, 1.5))
    text = found.files[found.spec.entry_file]
    assert text.count("size <= 63") == 1
    if language == 0:
        ast.parse(text)
        assert found.files["specialist_0.py"] == first.sources[0].content
    else:
        assert text.count("TVM_FFI_DLL_EXPORT_TYPED_FUNC") == 1 and text.count("namespace specialist_1 {") == 1
        assert text.rindex("#include") < text.index("namespace specialist_0")


def test_a_source_of_another_form_is_refused() -> None:
    first, second = pair("cpu")
    file = first.sources[0].model_copy(update={"content": "int main() {}"})
    strange = first.model_copy(update={"sources": [file]})
    pieces = (Piece(63, attempt(0, strange, (2, 1))), Piece(None, attempt(1, second, (1, 4))))
    with pytest.raises(InternalError, match="does not export"):
        merged(DEFINITION, Merge("batch_size", pieces, 1.5))


class Sized:
    """Half of the space is good at the small end, the other half at the large one; a merge has a speedup of its own."""

    def __init__(self, of_merge: float) -> None:
        self.judged: list[tuple[str, Fidelity]] = []
        self._of_merge = of_merge
        self._places = {SPACE.render(params).name: at for at, params in enumerate(SPACE.points())}

    def judge(self, solutions: Sequence[Solution], fidelity: Fidelity, deadline_s: float) -> list[Outcome]:
        self.judged += [(one.name, fidelity) for one in solutions]
        return [self._outcome(one.name, fidelity) for one in solutions]

    def _outcome(self, name: str, fidelity: Fidelity) -> Outcome:
        if "-merged-" in name:
            return outcome((4, 4), fidelity, self._of_merge)
        at = self._places[name]
        return outcome((4, 1.1) if at % 2 else (1.1, 4), fidelity)


@pytest.mark.parametrize(("of_merge", "wins"), [(4.0, True), (1.1, False), (0.9, False)])
def test_the_search_judges_a_merge_in_full_and_replays(tmp_path: Path, of_merge: float, wins: bool) -> None:
    def search(judge: Sized) -> loop.Result:
        return loop.run(Template([SPACE], ENDS, cpu(2)), judge, toy.journal(tmp_path), toy.history())

    judge = Sized(of_merge)
    result = search(judge)
    name, fidelity = judge.judged[-1]
    assert "-merged-" in name and fidelity == "full"
    assert result.best is not None
    assert result.best.proposal.merges is wins
    assert [one.outcome.fidelity for one in result.attempts[-3:]] == ["full"] * 3
    again = Sized(of_merge)
    assert search(again).best == result.best and again.judged == []


def test_no_merge_where_no_evaluation_is_left_for_it(tmp_path: Path) -> None:
    def names(limit: float) -> list[str]:
        judge, where = Sized(4.0), tmp_path / str(limit)
        loop.run(Template([SPACE], ENDS, cpu(2)), judge, toy.journal(where), toy.history(evaluations=limit))
        assert len(judge.judged) <= limit
        return [name for name, _ in judge.judged if "-merged-" in name]

    free = Sized(4.0)
    loop.run(Template([SPACE], ENDS, cpu(2)), free, toy.journal(tmp_path / "free"), toy.history())
    assert len(names(len(free.judged))) == 1
    assert names(len(free.judged) - 1) == []


def slow_where(solution: Solution, condition: str) -> Solution:
    """The same answer, computed 10000 times where the condition on the number of rows holds."""
    text = solution.sources[0].content
    loop_head = "  for (int64_t row = 0; row < rows; ++row) {\n"
    assert text.count(loop_head) == 1
    call = text[text.index("    norm_row(in") : text.index(";\n", text.index("    norm_row(in")) + 2]
    slow = f"    for (int again = 0; again < (rows {condition} ? 10000 : 1); ++again) {{\n  {call}    }}\n"
    file = solution.sources[0].model_copy(update={"content": text.replace(call, slow)})
    name = f"{solution.name}-slow-{'small' if '<' in condition else 'large'}"
    return solution.model_copy(update={"name": name, "sources": [file, *solution.sources[1:]]})


@pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")
def test_two_planted_specialists_become_one_that_passes_everywhere(tmp_path: Path) -> None:
    dataset = small(tmp_path, NAME, workloads=2, largest=False)
    sizes = sorted(one.axes["batch_size"] for one in dataset.workloads(NAME))
    few, many = pair("cpu")
    specialists = [slow_where(few, f"> {sizes[0]}"), slow_where(many, f"<= {sizes[0]}")]
    with LocalJudge(dataset, dataset.definition(NAME), options=QUICK) as judge:
        outcomes = judge.judge(specialists, "full", 300)
        attempts = [
            Attempt(at, Proposal(one), found, at)
            for at, (one, found) in enumerate(zip(specialists, outcomes, strict=True))
        ]
        merge = planned(dataset.definition(NAME), judge.workloads, attempts)
        assert merge is not None, [[(t.axes, t.ratio, t.baseline_ms) for t in one.outcome.timings] for one in attempts]
        assert [piece.specialist.number for piece in merge.pieces] == [0, 1]
        (found,) = judge.judge([merged(dataset.definition(NAME), merge)], "full", 300)
    assert found.passed and found.judged == found.expected == 2, found
    assert all(found.gain > one.gain for one in outcomes)
