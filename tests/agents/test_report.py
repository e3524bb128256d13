"""The report of a run, and the recorded runs that it can be made of again."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kernelmill.agents import loop, session
from kernelmill.agents.report.page import chart, render, tree
from tests.agents import toy
from tests.agents.record import NAMES, RUNS, WORKLOADS
from tests.agents.shipped import small
from tests.agents.stand_ins import Mutator
from tests.agents.test_strategies import write

CONFIG = {
    "definition": "<script>alert(1)</script>",
    "strategy": "greedy",
    "seed": 1,
    "kind": "cpu",
    "model": "<b>m</b>",
}


class Reader(HTMLParser):
    """Every tag with its attributes, and whether all that was opened was closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "line", "path", "circle"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass


def made(folder: Path, **options: int) -> tuple[loop.Result, str]:
    result = write(folder, "greedy", Mutator(3), steps=options.get("steps", 40))
    return result, render(CONFIG, result, toy.journal(folder).recorded)


def test_every_attempt_is_in_the_tree_once(tmp_path: Path) -> None:
    result, text = made(tmp_path)
    waiting, seen = tree(result), []
    while waiting:
        node = waiting.pop()
        seen.append(node.attempt.number)
        waiting += node.children
    assert sorted(seen) == [one.number for one in result.attempts]
    assert text.count("<circle") == len(chart(result, toy.journal(tmp_path).recorded).dots) > 3
    assert sum(node.is_best for node in tree(result)) <= 1 and 'class="best"' in text


def test_the_best_so_far_only_rises(tmp_path: Path) -> None:
    result, _ = made(tmp_path)
    heights = [float(y) for y in re.findall(r"V([0-9.]+)", chart(result, toy.journal(tmp_path).recorded).path)]
    assert heights == sorted(heights, reverse=True)


def test_foreign_text_is_escaped_and_nothing_runs_or_is_fetched(tmp_path: Path) -> None:
    result, _ = made(tmp_path, steps=5)
    evil = "<img src=x onerror=alert(1)>"
    attempts = [
        type(one)(
            one.number,
            type(one.proposal)(one.proposal.solution, evil, one.proposal.parents),
            one.outcome.model_copy(update={"cause": evil, "log": evil}),
            one.event,
        )
        for one in result.attempts
    ]
    text = render(CONFIG, result._replace(attempts=attempts), toy.journal(tmp_path).recorded)
    page = Reader(text)
    assert not page.open
    assert {tag for tag, _ in page.tags} & {"script", "img", "link", "b", "iframe"} <= {"b"}
    assert not any(name.startswith("on") or name in ("src", "href") for _, named in page.tags for name in named)
    assert "&lt;img src=x" in text and "&lt;script&gt;" in text
    policies = [named.get("content") or "" for tag, named in page.tags if tag == "meta"]
    assert any(policy.startswith("default-src 'none'; style-src 'sha256-") for policy in policies)


def test_a_run_without_a_result_has_a_report(tmp_path: Path) -> None:
    result, text = made(tmp_path, steps=0)
    assert not result.attempts and "Nothing passed" in text


@pytest.mark.parametrize("name", NAMES)
def test_recorded_runs_replay_byte_for_byte(tmp_path: Path, name: str) -> None:
    """Of the template search on a CPU; no model took part in them."""
    result, report = session.replay(
        RUNS / name, small(tmp_path, name, workloads=WORKLOADS, largest=NAMES[name]), lambda text: None
    )
    assert result.improved and len(result.attempts) == 8
    assert report == (RUNS / name / "report.html").read_text(encoding="utf-8")
