"""Models that are no models: one that mutates, one that fails in every way, one that cheats."""

from __future__ import annotations

import random
from collections.abc import Iterator

from kernelmill.agents.models.base import ModelError, Reply, Request, Usage
from tests.agents import toy
from tests.submissions.corpus import Case, load_cases

USAGE = Usage(tokens_in=100, tokens_out=50)


def block(source: str, language: str = "python", idea: str = "") -> str:
    return f"IDEA: {idea}\n```{language}\n{source.rstrip()}\n```\n"


class Mutator:
    """Reads the first parameters in the last message and moves one of them by one; starts at a corner."""

    name = "mutator"

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self.requests: list[Request] = []

    def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        x, y = toy.place(f"# {request.messages[-1].content[request.messages[-1].content.find('x=') :]}") or (0, 0)
        dx, dy = self._random.choice([(1, 0), (-1, 0), (0, 1), (0, -1)])
        x, y = min(max(x + dx, 0), toy.SIZE - 1), min(max(y + dy, 0), toy.SIZE - 1)
        return Reply(content=block(toy.source(x, y), idea=f"x={x} y={y}"), usage=USAGE)


class Guesser(Mutator):
    """Anywhere in the landscape, for samples that see nothing."""

    name = "guesser"

    def complete(self, request: Request) -> Reply:
        x, y = self._random.randrange(toy.SIZE), self._random.randrange(toy.SIZE)
        return Reply(content=block(toy.source(x, y), idea=f"x={x} y={y}"), usage=USAGE)


FAULTS: tuple[str | ModelError, ...] = (
    "",
    "I think that a kernel would be nice here.",
    "```python\ndef run(",
    "```python\n```",
    '{"source": "def run',
    "```rust\nfn main() {}\n```",
    block("def jump(hidden_states, weight, output): pass\n"),
    "I can't help with that.",
    ModelError("429: too many requests"),
    ModelError("500: internal server error"),
    ModelError("no answer within 600 s"),
    block("# " + "x" * 300_000 + "\n"),
    block("\x00\x01\ud7ff\ufffe\u202e = '\U0001f4a9'\n"),
    "<think>```python\n# x=6 y=3\n```",
    "```" * 1000,
)


class Fault:
    """Every fault in turn, over and over."""

    name = "fault"

    def __init__(self) -> None:
        self.count = 0

    def complete(self, request: Request) -> Reply:
        fault = FAULTS[self.count % len(FAULTS)]
        self.count += 1
        if isinstance(fault, ModelError):
            raise fault
        return Reply(content=fault)


def cheats(definition: str) -> Iterator[tuple[Case, str]]:
    """Every known hack of one file in Python that may not pass, as a reply that holds it."""
    for case in load_cases():
        sources = case.sources("cheat", {"HOST_FILE": "/nothing", "ANSWER_PORT": "9"})
        plain = case.language == "python" and len(sources) == 1 and case.destination_passing_style
        if case.definition == definition and plain and "PASSED" not in case.expect and case.gain:
            yield case, block(sources[0]["content"], idea=case.title)
