"""A run as one HTML file that opens offline: result, speed over time, search tree, lessons. No script runs in it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kernelmill.agents.attempt import Attempt, result
from kernelmill.agents.experience import record
from kernelmill.agents.journal import Event
from kernelmill.agents.loop import Result
from kernelmill.evaluator.report.charts import Axis, ratio_axis

HERE = Path(__file__).parent
_POLICY = "default-src 'none'; style-src '{style}'; base-uri 'none'; form-action 'none'"


@dataclass(slots=True)
class Node:
    """An attempt in the search tree, below the first of its parents."""

    attempt: Attempt
    told: str
    is_best: bool
    children: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Dot:
    """An attempt in the chart, in per cent of its width and height."""

    x: float
    y: float
    title: str
    full: bool


@dataclass(frozen=True, slots=True)
class Chart:
    """Gain over run time: every attempt that passed, and the best so far as a path in a box of 100 x 100."""

    axis: Axis
    dots: Sequence[Dot]
    path: str
    end_s: float


def render(config: Mapping[str, Any], outcome: Result, events: Sequence[Event]) -> str:
    """A pure function of the run, so that a replay gives the same bytes. Every foreign text is escaped."""
    style = (HERE / "page.css").read_text("utf-8")
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    pin = f"sha256-{b64encode(sha256(style.encode()).digest()).decode()}"
    return environment.get_template("page.html").render(
        config=config,
        result=outcome,
        chart=chart(outcome, events),
        roots=tree(outcome),
        lessons=record(outcome.attempts),
        used={name: amount for name, amount in outcome.used.items() if amount},
        style=Markup(style),
        policy=_POLICY.format(style=pin),
    )


def tree(outcome: Result) -> list[Node]:
    """Those that were made from nothing, each with what was made from it."""
    best = outcome.best.number if outcome.best else -1
    nodes = {one.number: Node(one, result(one.outcome), one.number == best) for one in outcome.attempts}
    roots: list[Node] = []
    for one in outcome.attempts:
        above = next((nodes[number] for number in one.proposal.parents if number in nodes), None)
        (above.children if above else roots).append(nodes[one.number])
    return roots


def chart(outcome: Result, events: Sequence[Event]) -> Chart:
    ended = {event.number: event.at_s for event in events}
    end_s = max([*ended.values(), 1e-3])
    passed = [one for one in outcome.attempts if one.outcome.passed]
    axis = ratio_axis([2.0, *(one.outcome.gain for one in passed)])
    dots: list[Dot] = []
    steps: list[str] = []
    best = 0.0
    for one in passed:
        x, y = round(100 * ended[one.event] / end_s, 2), round(100 - axis.at(one.outcome.gain), 2)
        dots.append(Dot(x, y, one.line, one.outcome.fidelity == "full"))
        if one.outcome.gain > best:
            best = one.outcome.gain
            steps.append(f"H{x:g}V{y:g}" if steps else f"M{x:g} {y:g}")
    return Chart(axis, dots, "".join([*steps, "H100"]) if steps else "", end_s)
