"""The documents, as they lie in the repository."""

from __future__ import annotations

from pathlib import Path

from fastapi import Request
from markupsafe import Markup
from starlette.responses import Response

from kernelmill.leaderboard.errors import NotFound
from kernelmill.web.html import PageRoute, page

FOLDER = Path(__file__).resolve().parents[2] / "docs"


def titles() -> dict[str, str]:
    """Name and first heading of each document; empty where the package came without them."""
    found = {}
    for path in sorted(FOLDER.glob("*.md")):
        first = next((line for line in path.read_text("utf-8").splitlines() if line.startswith("# ")), path.stem)
        found[path.stem] = first.removeprefix("# ")
    return found


def listing(request: Request) -> Response:
    return page(request, "docs.html", titles=titles(), body=None, name=None)


def document(request: Request) -> Response:
    name = request.path_params["name"].removesuffix(".md")
    known = titles()
    if name not in known:
        raise NotFound(f"there is no document {name!r}")
    return page(request, "docs.html", titles=known, name=name, body=_render((FOLDER / f"{name}.md").read_text("utf-8")))


def _render(text: str) -> Markup:
    """HTML in a document stays text."""
    from markdown_it import MarkdownIt

    return Markup(MarkdownIt("commonmark", {"html": False}).enable("table").render(text))


ROUTES = [PageRoute("/docs", listing), PageRoute("/docs/{name}", document)]
