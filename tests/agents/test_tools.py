"""The tools, by function calling and through MCP: the same answers, metered, and wrong calls are answered in words."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelmill.agents.author import Author
from kernelmill.agents.loop import run
from kernelmill.agents.models.base import Reply, ToolCall
from kernelmill.agents.models.scripted import Scripted
from kernelmill.agents.strategies.writing import BestOfN
from kernelmill.agents.tools.box import Toolbox
from kernelmill.evaluator.sandbox import probe
from kernelmill.trace_schema import Solution
from tests import builders
from tests.agents import toy
from tests.agents.shipped import small
from tests.agents.stand_ins import block

NAMES = [
    "get_definition",
    "list_workloads",
    "check_syntax",
    "compile",
    "run_correctness",
    "benchmark",
    "profile",
    "sanitize",
    "search_docs",
    "read_experience",
    "submit",
]


class Bench(toy.ToyJudge):
    """The toy judge, with a compiler."""

    def compiled(self, solution: Solution) -> str:
        return "" if toy.place(solution.sources[0].content) else "error: no parameters"

    def looked_into(self, solution: Solution, with_tool: str) -> str:
        return f"{with_tool}: nothing to see"


def box(bench: Bench | None = None) -> Toolbox:
    return Toolbox(builders.definition(), [builders.workload()], "cpu", bench or Bench())


def kernel(x: int, y: int) -> str:
    return json.dumps({"language": "python", "source": toy.source(x, y), "idea": f"x={x} y={y}"})


SCRIPT = [
    ("get_definition", "{}", "rmsnorm_h8"),
    ("list_workloads", "", '"batch_size": 4'),
    ("check_syntax", kernel(1, 1), "it parses"),
    ("check_syntax", json.dumps({"language": "python", "source": "def"}), "not Python"),
    ("compile", kernel(1, 1), "it builds"),
    ("compile", json.dumps({"language": "cpp", "source": "int"}), "error: no parameters"),
    ("run_correctness", kernel(40, 1), "NUMERIC"),
    ("benchmark", kernel(5, 3), "1.9 times the baseline"),
    ("profile", kernel(5, 3), "profile: nothing"),
    ("sanitize", kernel(5, 3), "sanitize: nothing"),
    ("search_docs", '{"query": "split the KV cache"}', "multiprocessors idle"),
    ("search_docs", '{"query": "zzz"}', "nothing was found"),
    ("read_experience", "{}", "dead end"),
    ("submit", kernel(6, 3), "PASSED on 1 of 1"),
    ("launch", "{}", "there is no tool 'launch'"),
    ("submit", "{", "no JSON object"),
    ("submit", '{"language": "lisp", "source": ""}', "language: Input should be"),
    ("submit", '{"language": "cpp", "source": "x", "clock": 1}', "clock: Extra inputs"),
]


def test_every_tool_has_a_schema_of_its_own() -> None:
    schemas = box().schemas()
    assert [one["name"] for one in schemas] == NAMES
    for one in schemas:
        assert one["description"] and one["parameters"]["type"] == "object"
        assert one["parameters"]["additionalProperties"] is False
    assert schemas[5]["parameters"]["required"] == ["language", "source"]


def test_a_scripted_dialogue_uses_every_tool(tmp_path: Path) -> None:
    """Each call in a reply of its own would pass the rounds that a model has, so all come at once."""
    calls = tuple(ToolCall(id=str(i), name=name, arguments=asked) for i, (name, asked, _) in enumerate(SCRIPT))
    model = Scripted([Reply(calls=calls), block(toy.source(4, 4), idea="from what it saw")])
    journal, history = toy.journal(tmp_path), toy.history()
    bench = Bench()
    author = Author(model, builders.definition(), "cpu", journal, tools=box(bench))
    result = run(BestOfN(author, steps=1), bench, journal, history)
    answers = [one.content for one in model.requests[1].messages if one.role == "tool"]
    for (name, _, expected), answer in zip(SCRIPT, answers, strict=True):
        assert expected in answer, name
    assert result.best is not None and result.best.proposal.idea == "x=6 y=3"
    assert result.used["evaluations"] == 4


def test_a_spent_budget_is_said_in_words(tmp_path: Path) -> None:
    journal, history, tools = toy.journal(tmp_path), toy.history(evaluations=1), box()
    assert "PASSED" in tools.answered("benchmark", kernel(5, 3), journal, history)
    assert "budget of evaluations is spent" in tools.answered("benchmark", kernel(5, 4), journal, history)
    assert "PASSED" in tools.answered("benchmark", kernel(5, 3), journal, history)


@pytest.fixture
def stdio(tmp_path: Path) -> Iterator[Any]:
    mcp = pytest.importorskip("mcp", reason="the extra `agents` is not installed")
    small(tmp_path / "data", workloads=1)
    command = ["-m", "kernelmill", "agent", "tools", "rmsnorm_h4096", "--device", "cpu"]
    where = ["--dataset", str(tmp_path / "data"), "--out", str(tmp_path / "run"), "--budget", "evaluations=3"]
    root = str(Path(__file__).resolve().parents[2])
    yield mcp.StdioServerParameters(command=sys.executable, args=[*command, *where], cwd=root)


@pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")
def test_an_mcp_client_goes_round(stdio: Any, tmp_path: Path) -> None:
    import anyio
    import mcp

    source = (
        "import torch\n\ndef run(hidden_states, weight, output):\n"
        "    output.copy_(torch.nn.functional.rms_norm(hidden_states, weight.shape, weight, 1e-5))\n"
    )

    async def talk() -> list[str]:
        async with mcp.Client(stdio, read_timeout_seconds=240) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == NAMES
            kernel = {"language": "python", "source": source, "idea": "fused"}
            asked: list[tuple[str, dict[str, Any]]] = [
                ("get_definition", {}),
                ("submit", kernel),
                ("profile", kernel),
                ("read_experience", {}),
                ("compile", {"language": "cpp", "source": "int main(", "idea": ""}),
            ]
            results = [await client.call_tool(name, arguments) for name, arguments in asked]
            return [
                part.text for result in results for part in result.content if isinstance(part, mcp.types.TextContent)
            ]

    definition, submitted, profiled, learned, compiled = anyio.run(talk)
    assert "rmsnorm_h4096" in definition and "on 1 of 1 workloads" in submitted
    assert "moves at least" in profiled and "fused" in learned and "does not build" in compiled
    assert len(list((tmp_path / "run" / "solutions").iterdir())) == 1
