"""A solution without what can be changed for nothing: names, types, literals, layout, comments, order of functions.

What is left is a list of units, one for each top-level function or statement, each a list of short words. Two units
with the same words are the same code under other names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from functools import cache
from typing import Any, NamedTuple

from kernelmill.trace_schema import Solution

MAX_CHARS = 1 << 18
MAX_WORDS = 20_000
"""Of a solution; what lies behind is not looked at. Long files come last: padding one of them hides no other."""
NAME, LITERAL, TEXT = "n", "0", "s"
PYTHON_SUFFIXES = (".py", ".pyi")
NATIVE_SUFFIXES = (".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".inl", ".inc")
IDLE = frozenset("const constexpr static inline volatile register mutable restrict noexcept".split())
"""Words of C++ that can be added or left out and change next to nothing."""
SOFT = frozenset(["match", "case", "type", "_", "auto"])
"""Words that stand for a name or a type, whatever the lexer takes them for."""
GOES_ON = frozenset(["else", "elif", "except", "finally"])
"""Words that begin a line of Python but no statement."""
BLANK = re.compile(r"[\s\\]*")
PIECE = re.compile(r"[\w$]+|[^\w\s$]")


class Word(NamedTuple):
    """One word of the normal form, and what it stands for."""

    text: str
    source: str
    breaks: bool
    """Whether a line ended before it."""
    at_margin: bool


def units(solution: Solution) -> list[list[str]]:
    """Of all its files. A text of many lines inside Python, such as a kernel that is compiled later, is a file too."""
    reader = Reader()
    files = sorted(solution.files.items(), key=lambda file: (len(file[1]), file[1]))
    found = [unit for path, text in files for unit in reader.read(text, _is_native(path, solution))]
    return found + [unit for text in reader.texts for unit in reader.read(text, True)]


def _is_native(path: str, solution: Solution) -> bool:
    """Told by the file's name, and by the solution's language where the name tells nothing."""
    if path.endswith(PYTHON_SUFFIXES):
        return False
    return path.endswith(NATIVE_SUFFIXES) or solution.spec.language.is_native


class Reader:
    """Reads file after file until what may be read of a solution is used up."""

    def __init__(self) -> None:
        self._chars = MAX_CHARS
        self._words = MAX_WORDS
        self.texts: list[str] = []
        """Texts of many lines that Python files held."""

    def read(self, text: str, is_native: bool) -> Iterator[list[str]]:
        cut = text[: self._chars]
        self._chars -= len(cut)
        # Lexers take quadratic time over long runs of blank lines.
        squeezed = "".join(line.rstrip() + "\n" for line in cut.splitlines() if line.strip())
        return self._native(squeezed) if is_native else self._python(squeezed)

    def _python(self, text: str) -> Iterator[list[str]]:
        unit: list[str] = []
        decorated = False
        for line in _lines(self._lexed(_python_lexer(), text)):
            if all(word.text == TEXT for word in line):
                continue  # a docstring
            first = line[0]
            if first.at_margin and first.text not in GOES_ON and not decorated:
                yield unit
                unit = []
            decorated = first.text == "@"
            unit += (word.text for word in _tidy(line) if word.text != ";")
            self.texts += (word.source for word in line if word.text == TEXT and "\n" in word.source)
        yield unit

    def _native(self, text: str) -> Iterator[list[str]]:
        """Braces are left out: around one statement they are a matter of taste."""
        joined = text.replace("\\\n", " ")
        text = re.sub(r"^[ \t]*#[ \t]*define\b(.*)$", r"\1\n;", joined, flags=re.MULTILINE)
        unit: list[str] = []
        depth = 0
        for word in _tidy(word for word in self._lexed(_native_lexer(), text) if word.source not in IDLE):
            if word.text == "{" and depth == 0 and (unit[:1] == ["namespace"] or unit == ["extern", TEXT]):
                unit = []
                continue
            depth = max(0, depth + (word.text == "{") - (word.text == "}"))
            if word.text not in "{}":
                unit.append(word.text)
            if depth == 0 and word.text in "};":
                yield unit
                unit = []
        yield unit

    def _lexed(self, lexer: Any, text: str) -> Iterator[Word]:
        """Neighbouring pieces of text become one word."""
        held: Word | None = None
        breaks = False
        for place, kind, value in lexer.get_tokens_unprocessed(text):
            role = _role(kind)
            is_blank = role is not Role.TEXT and BLANK.fullmatch(value) is not None
            breaks = breaks or (is_blank and "\n" in value and "\\" not in value)
            self._words -= role is not Role.COMMENT and not value.isspace()
            if self._words < 0:
                break
            if is_blank or role in (Role.COMMENT, Role.DIRECTIVE):
                continue
            if role is Role.TEXT and held and held.text == TEXT and not breaks:
                held = held._replace(source=held.source + value.strip("\"'"))
                continue
            margin = place == 0 or text[place - 1] == "\n"
            for piece in _pieces(role, value):
                if held:
                    yield held
                held = Word(piece, value.strip("\"'"), breaks, margin)
                breaks = margin = False
        if held:
            yield held


class Role(Enum):
    """What a kind of token is in the normal form."""

    TEXT = auto()
    COMMENT = auto()
    DIRECTIVE = auto()
    """Of the preprocessor: left out like a comment, but counted as what is read."""
    NUMBER = auto()
    CONSTANT = auto()
    KEYWORD = auto()
    OTHER = auto()


@cache
def _role(kind: Any) -> Role:
    """Kept by kind, of which there are few: asking a lexer's kind what it belongs to is slow."""
    from pygments.token import Comment, Keyword, Number, Operator, String

    if kind in String:
        return Role.TEXT
    if kind in Comment:
        return Role.DIRECTIVE if kind in Comment.Preproc else Role.COMMENT
    if kind in Number:
        return Role.NUMBER
    if kind in Keyword.Constant:
        return Role.CONSTANT
    is_keyword = (kind in Keyword or kind in Operator.Word) and kind not in Keyword.Type
    return Role.KEYWORD if is_keyword else Role.OTHER


def _pieces(role: Role, value: str) -> list[str]:
    """The words of one token; operators fall into single characters, as `>>` closes two templates."""
    if role is Role.TEXT:
        return [TEXT]
    if role is Role.NUMBER:
        return ["-", LITERAL] if value.startswith("-") else [LITERAL]
    if role is Role.CONSTANT:
        return [LITERAL]
    if role is Role.KEYWORD and value not in SOFT:
        return value.split()
    return [NAME if piece[0].isalnum() or piece[0] in "_$" else piece for piece in PIECE.findall(value)]


def _lines(words: Iterable[Word]) -> Iterator[list[Word]]:
    """Logical lines of Python: what stands in brackets goes on where a line ends."""
    line: list[Word] = []
    depth = 0
    for word in words:
        if word.breaks and depth == 0 and line:
            yield line
            line = []
        depth = max(0, depth + (word.text in "([{") - (word.text in ")]}"))
        line.append(word)
    if line:
        yield line


def _tidy(words: Iterable[Word]) -> Iterator[Word]:
    """Without a comma that closes a list, and with a run of names, such as `unsigned long long size`, as one."""
    before: Word | None = None
    for word in words:
        if before and not _is_idle(before.text, word.text):
            yield before
        before = word
    if before:
        yield before


def _is_idle(word: str, after: str) -> bool:
    return (word == "," and after in ")]}") or word == after == NAME


@cache
def _python_lexer() -> Any:
    from pygments.lexers.python import PythonLexer

    return PythonLexer()


@cache
def _native_lexer() -> Any:
    """C++ for all that looks like it. CUDA's own words are names to it, which is as good."""
    from pygments.lexer import default, inherit
    from pygments.lexers.c_cpp import CppLexer
    from pygments.token import String

    # Two of its patterns take quadratic time where what they look for is missing: a function's head, a raw text's end.
    raw = (r'(?:[LuU]|u8)?R"([^\\()\s"]{,16})\((?:[\s\S]*?)(?:\)\1"|\Z)', String)
    tokens = {"root": [default("statement")], "statements": [raw, inherit]}
    return type("Linear", (CppLexer,), {"tokens": tokens})()
