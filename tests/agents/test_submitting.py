"""A run's best kernel goes to a service by the command that everybody uses, with how it came to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernelmill.agents.budget import UsageError
from kernelmill.agents.submitting import best_of, submit
from kernelmill.trace_schema import Solution
from kernelmill.trace_schema.errors import DatasetError
from tests.agents import toy
from tests.agents.server import serving
from tests.agents.stand_ins import Guesser
from tests.agents.test_strategies import write

CONFIG = {"version": "9", "strategy": "best_of_n", "model": "openai:fake"}


def finished(folder: Path, steps: int) -> None:
    write(folder, "best_of_n", Guesser(3), steps=steps)
    toy.journal(folder).configure(CONFIG)


def test_the_best_goes_with_model_harness_cost_tokens_and_evaluations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished(tmp_path, steps=30)
    monkeypatch.setenv("KERNELMILL_TOKEN", "token-of-an-agent")

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return 202, {"id": "s1", "state": "queued", "position": 1, "links": {}, "notes": []}

    with serving(answer) as (url, seen):
        assert submit(tmp_path, url.removesuffix("/v1"), wait=False) == 0
    sent = Solution.model_validate(seen[0]["solution"])
    best, end = best_of(tmp_path)
    assert sent.hash() == best.hash() and sent.author == "guesser"
    assert sent.description == (
        f"kernelmill agent 9; strategy best_of_n; model openai:fake; evaluations {end['used']['evaluations']:g}; "
        "tokens 4500; cost 0 USD"
    )
    assert not any("token-of-an-agent" in path.read_text() for path in tmp_path.rglob("*") if path.is_file())


def test_nothing_better_is_not_submitted(tmp_path: Path) -> None:
    finished(tmp_path, steps=0)
    with pytest.raises(UsageError, match="nothing to submit"):
        best_of(tmp_path)


def test_an_unfinished_run_is_not_submitted(tmp_path: Path) -> None:
    toy.journal(tmp_path)
    with pytest.raises(DatasetError, match="has no end"):
        best_of(tmp_path)
