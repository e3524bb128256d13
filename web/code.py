"""Source code for reading: coloured by classes, so that the style sheet decides and no script is needed."""

from __future__ import annotations

import difflib

from markupsafe import Markup

LONGEST = 200_000
"""Characters; what is longer is shown plain and cut."""


def highlight(path: str, text: str) -> Markup:
    """Escaped HTML of a file's text; a language that nobody knows stays plain."""
    from pygments import highlight as render
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import TextLexer, get_lexer_for_filename
    from pygments.util import ClassNotFound

    cut = text[:LONGEST]
    try:
        lexer = get_lexer_for_filename(path.replace(".cu", ".cpp") if path.endswith((".cu", ".cuh")) else path)
    except ClassNotFound:
        lexer = TextLexer()
    if len(text) > LONGEST:
        lexer = TextLexer()
    return Markup(render(cut, lexer, HtmlFormatter(nowrap=True)))  # Pygments escapes what it is given


def difference(one: dict[str, str], other: dict[str, str]) -> list[tuple[str, str]]:
    """(kind, line) of a unified diff over all files: kind is file, hunk, add, del or same."""
    found: list[tuple[str, str]] = []
    for path in sorted({*one, *other}):
        before, after = one.get(path, "").splitlines(), other.get(path, "").splitlines()
        for line in difflib.unified_diff(before, after, path, path, lineterm="", n=3):
            found.append((_kind(line), line))
    return found


def _kind(line: str) -> str:
    if line.startswith(("---", "+++")):
        return "file"
    return {"@": "hunk", "+": "add", "-": "del"}.get(line[:1], "same")
