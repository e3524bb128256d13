"""The tools: each a function of checked arguments. What costs an evaluation is metered, and all go through the journal.

The judge behind them is the run's own: the device, the reference's outputs and hidden workloads stay on its side.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kernelmill.agents import loop
from kernelmill.agents.attempt import Proposal
from kernelmill.agents.budget import Exhausted
from kernelmill.agents.experience import dumped, record
from kernelmill.agents.feedback import failure, measured
from kernelmill.agents.journal import Journal
from kernelmill.agents.outcome import Fidelity
from kernelmill.agents.replies import FormatError, solution_of
from kernelmill.agents.strategies.base import History
from kernelmill.trace_schema import Definition, Language, Solution, Workload

DOCS = Path(__file__).parent / "docs"
MAX_ANSWER_CHARS = 12_000
MAX_SOURCE_CHARS = 200_000


class Arguments(BaseModel):
    """Of a tool. Unknown ones are refused."""

    model_config = ConfigDict(extra="forbid")


class Nothing(Arguments):
    """No arguments."""


class Source(Arguments):
    """A kernel in one file with a function `run`."""

    language: Literal["cpp", "cuda", "triton", "python"] = Field(description="What it is written in.")
    source: str = Field(description="The whole file.", max_length=MAX_SOURCE_CHARS)
    idea: str = Field("", description="In one line, what is new in it.", max_length=200)


class Query(Arguments):
    """Words to look for."""

    query: str = Field(description="A few words.", max_length=200)


class Workbench(loop.Judge, Protocol):
    """A judge that can also compile without judging, and look into a kernel."""

    def compiled(self, solution: Solution) -> str:
        """Compiler output where it does not build; "" where it does."""

    def looked_into(self, solution: Solution, with_tool: Literal["profile", "sanitize"]) -> str:
        """What a profiler or a sanitizer says, or why it can't say anything here."""


class Tool(NamedTuple):
    """Name, what it is for, its arguments, and what runs."""

    name: str
    description: str
    arguments: type[Arguments]
    work: Callable[[Any, Journal, History], str]


class Toolbox:
    """The tools for one definition on one device."""

    def __init__(
        self, definition: Definition, workloads: Sequence[Workload], kind: str, bench: Workbench, author: str = "agent"
    ) -> None:
        self._definition, self._workloads, self._kind = definition, workloads, kind
        self._bench, self._author = bench, author
        self.tools = {tool.name: tool for tool in self._all()}

    def schemas(self) -> list[dict[str, Any]]:
        """For function calling: name, description and JSON Schema of the arguments."""
        return [
            {"name": one.name, "description": one.description, "parameters": _schema(one.arguments)}
            for one in self.tools.values()
        ]

    def answered(self, name: str, arguments: str, journal: Journal, history: History) -> str:
        """What the tool says, as text; also where it was called wrongly, or the budget is spent."""
        tool = self.tools.get(name)
        if tool is None:
            return f"there is no tool {name[:80]!r}; there are {', '.join(self.tools)}"
        try:
            checked = tool.arguments.model_validate(json.loads(arguments or "{}"))
        except ValidationError as error:
            problems = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
            return f"{name} was called wrongly: {'; '.join(problems)[:500]}"
        except ValueError:
            return f"{name} was called wrongly: its arguments are no JSON object"
        try:
            return tool.work(checked, journal, history)[:MAX_ANSWER_CHARS]
        except (FormatError, Exhausted) as error:
            return str(error)

    def _all(self) -> Iterator[Tool]:
        yield Tool("get_definition", "The contract: axes, tensors, reference.", Nothing, self._definition_text)
        yield Tool("list_workloads", "The sizes that it is measured on.", Nothing, self._workload_list)
        yield Tool("check_syntax", "Parse a Python or Triton source; costs nothing.", Source, self._check_syntax)
        yield Tool("compile", "Build it in the sandbox and give the compiler's words.", Source, self._compile)
        yield Tool("run_correctness", "Judge it on a few workloads; one evaluation.", Source, self._correctness)
        yield Tool("benchmark", "Judge and time it on every workload; one evaluation.", Source, self._benchmark)
        yield Tool("profile", "What limits it, by hardware counters where they can be read.", Source, self._profile)
        yield Tool("sanitize", "Memory errors and races of GPU code.", Source, self._sanitize)
        yield Tool("search_docs", "Look through the shipped notes on writing kernels.", Query, _search)
        yield Tool("read_experience", "What this run has learned so far.", Nothing, _experience)
        yield Tool("submit", "Hand it in: judged on every workload, kept if it is best.", Source, self._benchmark)

    def _definition_text(self, arguments: Nothing, journal: Journal, history: History) -> str:
        return self._definition.model_dump_json(exclude_unset=True, indent=1)

    def _workload_list(self, arguments: Nothing, journal: Journal, history: History) -> str:
        rows = [{"axes": one.axes, "calls": one.weight or 1.0} for one in self._workloads]
        return "\n".join(json.dumps(row) for row in rows)

    def _check_syntax(self, arguments: Source, journal: Journal, history: History) -> str:
        if arguments.language in ("cpp", "cuda"):
            return "native code is checked by `compile`"
        try:
            ast.parse(arguments.source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return f"not Python: {error}"
        return "it parses"

    def _compile(self, arguments: Source, journal: Journal, history: History) -> str:
        solution = self._solution(arguments)
        said = self._noted("compile", solution, journal, lambda: self._bench.compiled(solution))
        return f"it does not build:\n{said}" if said else "it builds"

    def _correctness(self, arguments: Source, journal: Journal, history: History) -> str:
        return self._judged(arguments, "quick", journal, history)

    def _benchmark(self, arguments: Source, journal: Journal, history: History) -> str:
        return self._judged(arguments, "full", journal, history)

    def _profile(self, arguments: Source, journal: Journal, history: History) -> str:
        solution = self._solution(arguments)
        return self._noted("profile", solution, journal, lambda: self._bench.looked_into(solution, "profile"))

    def _sanitize(self, arguments: Source, journal: Journal, history: History) -> str:
        solution = self._solution(arguments)
        return self._noted("sanitize", solution, journal, lambda: self._bench.looked_into(solution, "sanitize"))

    def _judged(self, arguments: Source, fidelity: Fidelity, journal: Journal, history: History) -> str:
        proposal = Proposal(self._solution(arguments), arguments.idea, fidelity=fidelity)
        (attempt,) = loop.judged([proposal], self._bench, journal, history)
        outcome = attempt.outcome
        lines = measured(outcome) if outcome.passed else failure(outcome)
        return "\n".join([f"{outcome.gate.value} on {outcome.judged} of {outcome.expected} workloads", *lines])

    def _noted(self, name: str, solution: Solution, journal: Journal, work: Callable[[], str]) -> str:
        asked = {"tool": name, "solution": solution.name, "hash": solution.hash()}
        return str(journal.perform("tool", asked, lambda: {"said": work()}).answered["said"])

    def _solution(self, arguments: Source) -> Solution:
        language = Language(arguments.language)
        return solution_of(arguments.source, language, self._definition, self._kind, self._author)


def _schema(arguments: type[Arguments]) -> dict[str, Any]:
    schema = arguments.model_json_schema()
    schema.pop("title", None)
    schema.pop("description", None)
    return schema


def _experience(arguments: Nothing, journal: Journal, history: History) -> str:
    return dumped(record(history.attempts))


def _search(arguments: Query, journal: Journal, history: History) -> str:
    """The three sections that share most words with the query."""
    words = set(re.findall(r"\w+", arguments.query.lower()))
    sections = [part for path in sorted(DOCS.glob("*.md")) for part in re.split(r"^# ", path.read_text(), flags=re.M)]
    scored = [(len(words & set(re.findall(r"\w+", part.lower()))), part) for part in sections if part.strip()]
    best = sorted((one for one in scored if one[0]), key=lambda one: -one[0])[:3]
    return "\n\n".join(part.strip() for _, part in best) or "nothing was found; try other words"
