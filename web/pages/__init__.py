"""One module a page, or a few that belong together: read the query, ask the query layer, render."""

from __future__ import annotations

from starlette.routing import BaseRoute

from kernelmill.web.pages import author, board, compare, definition, docs, home, model, solution, submission, tools


def routes() -> list[BaseRoute]:
    return [
        route
        for module in (home, board, definition, model, solution, compare, author, submission, tools, docs)
        for route in module.ROUTES
    ]
