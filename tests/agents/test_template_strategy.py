"""The search without a model: it finds a planted best, the same one for the same seed, and lands within its budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelmill.agents import loop
from kernelmill.agents.outcome import Fidelity, Gate, Outcome
from kernelmill.agents.strategies.template import Template
from kernelmill.agents.templates.families import spaces
from kernelmill.agents.templates.space import cpu
from kernelmill.cli import app
from kernelmill.dataset import Dataset
from kernelmill.evaluator.sandbox import probe
from kernelmill.trace_schema import Solution
from tests.agents import toy
from tests.agents.shipped import shipped, small

PLANTED: dict[str, int | str] = {"unroll": 4, "keep": "source", "threads_above": 1 << 20, "prefetch": 0}


class Planted:
    """Gain falls with each parameter that is not the planted one; a quick judgement errs by a hair."""

    def __init__(self, seconds: float = 1.0) -> None:
        self.judged: list[tuple[str, Fidelity]] = []
        self._seconds = seconds
        (self.space,) = spaces(shipped().definition("rmsnorm_h4096"), "cpu")
        self._params = {self.space.render(params).name: params for params in self.space.points()}

    def judge(self, solutions: Sequence[Solution], fidelity: Fidelity, deadline_s: float) -> list[Outcome]:
        self.judged += [(one.name, fidelity) for one in solutions]
        return [self._outcome(self._params[one.name], fidelity) for one in solutions]

    def _outcome(self, params: dict[str, int | str], fidelity: Fidelity) -> Outcome:
        steps = 0
        for name, values in self.space.choices.items():
            steps += abs(values.index(params[name]) - values.index(PLANTED[name]))
        gain = 2.0 / (1 + 0.2 * steps)
        gate = Gate.PASSED if gain > 1 else Gate.SLOWER
        return Outcome(
            gate=gate, fidelity=fidelity, gain=gain, lo=max(1, gain), hi=max(1, gain), device_s=self._seconds
        )


def search(
    folder: Path,
    judge: Planted,
    *,
    seed: int = 0,
    excluded: Sequence[str] = (),
    limits: Mapping[str, float] | None = None,
) -> loop.Result:
    workloads = list(shipped().workloads("rmsnorm_h4096"))
    strategy = Template([judge.space], workloads, cpu(2), seed=seed, excluded=excluded)
    return loop.run(strategy, judge, toy.journal(folder), toy.history(**(limits or {})))


@pytest.mark.parametrize("seed", range(4))
def test_it_comes_within_a_step_of_the_planted_best(tmp_path: Path, seed: int) -> None:
    judge = Planted()
    result = search(tmp_path, judge, seed=seed)
    assert result.improved and not result.exhausted
    assert result.best is not None and result.best.outcome.gain >= 2.0 / 1.2
    assert len(judge.judged) < judge.space.size / 2


def test_without_the_planted_best_it_finds_another(tmp_path: Path) -> None:
    judge = Planted()
    best = judge.space.identity(PLANTED)
    result = search(tmp_path, judge, excluded=[best])
    assert result.improved and all(best not in name for name, _ in judge.judged)


def test_the_same_seed_gives_the_same_sequence(tmp_path: Path) -> None:
    judges = [Planted() for _ in range(3)]
    for number, (judge, seed) in enumerate(zip(judges, (5, 5, 6), strict=True)):
        search(tmp_path / str(number), judge, seed=seed)
    assert judges[0].judged == judges[1].judged != judges[2].judged


@pytest.mark.parametrize(
    "limits", [{"evaluations": 1.0}, {"evaluations": 5.0}, {"evaluations": 9.0}, {"device_s": 30.0}]
)
def test_it_lands_with_a_full_judgement_within_its_budget(tmp_path: Path, limits: dict[str, float]) -> None:
    judge = Planted()
    result = search(tmp_path, judge, limits=limits)
    assert result.best is not None and not result.exhausted
    assert judge.judged[-1][1] == "full"
    assert all(result.used[name] <= limit for name, limit in limits.items())


@pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")
def test_the_command_finds_a_kernel_that_passes_everywhere(tmp_path: Path) -> None:
    small(tmp_path / "data")
    out = tmp_path / "run"
    arguments = ["agent", "run", "rmsnorm_h4096", "--strategy", "template", "--budget", "evaluations=6", "--json"]
    where = ["--dataset", str(tmp_path / "data"), "--device", "cpu", "--out", str(out), "--save"]
    done = CliRunner().invoke(app, [*arguments, *where])
    assert done.exit_code == 0, done.stderr
    assert '"improved": true' in done.stdout and '"passed": 2' in done.stdout
    again = CliRunner().invoke(app, ["agent", "replay", str(out), "--dataset", str(tmp_path / "data"), "--json"])
    assert (again.exit_code, again.stdout) == (0, done.stdout)
    traces = list(Dataset.open(tmp_path / "data", cache_dir=tmp_path / "c").traces(author="template-agent"))
    assert {trace.workload.uuid for trace in traces} and all(trace.evaluation for trace in traces)


def test_the_command_says_what_it_does_not_know(tmp_path: Path) -> None:
    def refused(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["agent", "run", *arguments, "--out", str(tmp_path / "run")])
        assert done.exit_code == 2
        return done.stderr

    assert "no strategy 'magic'; there are template" in refused(
        "rmsnorm_h4096", "--strategy", "magic", "--device", "cpu"
    )
    assert "--budget 'love=3'" in refused("rmsnorm_h4096", "--budget", "love=3", "--device", "cpu")
    assert "no template fits moe_softmax" in refused("moe_softmax_routing_e128_topk8", "--device", "cpu")
