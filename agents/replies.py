"""From a model's words to a Solution, or a reason why there is none."""

from __future__ import annotations

import re

from pydantic import ValidationError

from kernelmill.agents.feedback import FENCES, SAYS
from kernelmill.agents.templates.space import FILES, NEEDS
from kernelmill.trace_schema import BuildSpec, Definition, Language, Solution, SourceFile
from kernelmill.trace_schema.errors import SubmissionError

MAX_SOURCE_CHARS = 200_000
THINKING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
BLOCK = re.compile(r"^```[ \t]*([A-Za-z0-9+_-]*)[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
IDEA = re.compile(r"^[ \t]*IDEA:[ \t]*(\S.*)$", re.MULTILINE)
LANGUAGES = {fence: language for language, fence in FENCES.items()} | {"c++": Language.CPP, "cu": Language.CUDA}


class FormatError(SubmissionError):
    """A reply that holds no solution; the text says what was looked for."""


def read_reply(text: str, definition: Definition, kind: str, author: str) -> tuple[Solution, str]:
    """The solution and its idea. The last block with a known language counts. Raises FormatError."""
    spoken = THINKING.sub("", text)
    blocks = [(LANGUAGES.get(name.lower()), body) for name, body in BLOCK.findall(spoken)]
    known = [(language, body) for language, body in blocks if language in SAYS[kind] and body.strip()]
    if not known:
        raise FormatError(_missing(spoken, [language for language, _ in blocks], kind))
    language, body = known[-1]
    assert language is not None
    if len(body) > MAX_SOURCE_CHARS:
        raise FormatError(f"the source has {len(body)} characters; at most {MAX_SOURCE_CHARS} are taken")
    idea = IDEA.search(spoken)
    return solution_of(body, language, definition, kind, author), " ".join(idea[1].split())[:160] if idea else ""


def solution_of(source: str, language: Language, definition: Definition, kind: str, author: str) -> Solution:
    """A solution of one file, named by its content. Raises FormatError."""
    file = FILES.get(language, "main.py")
    try:
        made = Solution(
            name="unnamed",
            definition=definition.name,
            author=author,
            spec=BuildSpec(
                language=language,
                target_hardware=[kind],
                entry_point=f"{file}::run",
                dependencies=NEEDS.get(language, ["torch"]),
            ),
            sources=[SourceFile(path=file, content=source)],
        )
    except ValidationError as error:
        raise FormatError(f"the source is no solution: {error.errors()[0]['msg']}") from error
    return made.model_copy(update={"name": f"{definition.name}-{author}-{made.hash()[:10]}"})


def _missing(text: str, found: list[Language | None], kind: str) -> str:
    fences = ", ".join(FENCES[language] for language in SAYS[kind])
    if not text.strip():
        return "the reply is empty"
    if found:
        return f"no block is in a language of {fences}"
    return "the fenced block is not closed" if "```" in text else f"there is no fenced block of {fences}"
