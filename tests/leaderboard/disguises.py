"""Ways to hand in another's kernel as one's own that cost nothing. None of them needs the code under test."""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import re
import tokenize
from collections.abc import Callable
from hashlib import sha256

from kernelmill.trace_schema import Solution

Disguise = Callable[[Solution], Solution]

NATIVE_WORDS = frozenset(
    "alignas auto bool break case char const constexpr continue default do double else enum extern false float for if "
    "inline int long namespace nullptr return short signed sizeof static struct switch template true typedef typename "
    "union unsigned using void volatile while class public private static_assert thread_local "
    "static_cast reinterpret_cast define pragma include unroll omp".split()
)
NATIVE_PIECE = re.compile(
    r'^[ \t]*#[^\n]*|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*|0x\w+|\d(?:[eE][-+]|[\w.])*', re.M | re.S
)
FILLER = """
def _unused(first, second):
    total = first
    for each in second:
        total = total + each if each > total else total - each
    while total > 10:
        total, first = total // 2, [total, *second]
    return {"total": total, "first": first, "second": [one for one in second if one]}
"""


def changed(solution: Solution, change: Callable[[str], str]) -> Solution:
    """The same solution under another name, with the text of each file changed."""
    files = [{"path": path, "content": change(content)} for path, content in solution.files.items()]
    return Solution.model_validate(
        {**solution.model_dump(), "name": f"mallory_{solution.name}", "author": "mallory", "sources": files}
    )


def is_python(solution: Solution) -> bool:
    return not solution.spec.language.is_native


def renamed(solution: Solution) -> Solution:
    """Every name that a word of the language does not need, attributes too."""
    return changed(solution, _python(_name) if is_python(solution) else _native(_name))


def with_other_literals(solution: Solution) -> Solution:
    return changed(solution, _python(_literal) if is_python(solution) else _native(_literal))


def reformatted(solution: Solution) -> Solution:
    """Python as its own parser writes it; native code in as few lines as can be."""
    if is_python(solution):
        return changed(solution, lambda text: ast.unparse(ast.parse(text)))
    return changed(solution, lambda text: re.sub(r"(?<=[;{}])\s+(?!\s*#)", " ", _native(_uncommented)(text)))


def commented(solution: Solution) -> Solution:
    mark = "#" if is_python(solution) else "//"

    def comment(line: str) -> str:
        return line if line.endswith("\\\n") else f"{line.rstrip()}  {mark} mine, all mine\n\n"

    return changed(solution, lambda text: "".join(map(comment, text.splitlines(keepends=True))))


def padded(solution: Solution) -> Solution:
    """Beside code that nobody calls."""
    return changed(solution, lambda text: FILLER + text) if is_python(solution) else solution


def backwards(solution: Solution) -> Solution:
    """Python's top-level statements in reverse."""

    def reverse(text: str) -> str:
        return "\n".join(ast.unparse(node) for node in reversed(ast.parse(text).body))

    return changed(solution, reverse) if is_python(solution) else solution


DISGUISES: dict[str, Disguise] = {
    "renamed": renamed,
    "other literals": with_other_literals,
    "reformatted": reformatted,
    "commented": commented,
    "padded": padded,
    "backwards": backwards,
    "all of them": lambda one: commented(padded(backwards(renamed(with_other_literals(reformatted(one)))))),
}


def _name(piece: str) -> str:
    fixed = keyword.iskeyword(piece) or piece in NATIVE_WORDS or hasattr(builtins, piece)
    if fixed or not (piece[0].isalpha() or piece[0] == "_"):
        return piece
    return f"v{sha256(piece.encode()).hexdigest()[:6]}"


def _literal(piece: str) -> str:
    return "17" if piece[0].isdigit() else '"something else"' if piece[0] in "'\"" else piece


def _uncommented(piece: str) -> str:
    return "" if piece.startswith(("//", "/*")) else piece


def _python(change: Callable[[str], str]) -> Callable[[str], str]:
    def apply(text: str) -> str:
        kinds = (tokenize.NAME, tokenize.NUMBER, tokenize.STRING)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        return tokenize.untokenize(
            [(token[0], change(token[1]) if token[0] in kinds else token[1]) for token in tokens]
        )

    return apply


def _native(change: Callable[[str], str]) -> Callable[[str], str]:
    """To names, numbers, texts and comments, but to no line for the preprocessor."""

    def one(match: re.Match[str]) -> str:
        piece = match[0]
        return piece if piece.lstrip().startswith("#") else change(piece)

    return lambda text: NATIVE_PIECE.sub(one, text)
