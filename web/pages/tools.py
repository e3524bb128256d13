"""The viewer: any object of the schema, pasted, checked and shown."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from pydantic import ValidationError
from starlette.responses import Response

from kernelmill.trace_schema import Definition, Solution, Trace, Workload
from kernelmill.web.html import PageRoute, page

LONGEST = 1_000_000
KINDS = {"definition": Definition, "solution": Solution, "workload": Workload, "trace": Trace}


async def viewer(request: Request) -> Response:
    """By GET an empty form; by POST what was pasted, and what is wrong with it."""
    if request.method == "GET":
        return page(request, "viewer.html", text="", found=None, faults=[], kinds=list(KINDS), kind="")
    form = await request.form(max_part_size=LONGEST)
    text, kind = str(form.get("text", ""))[:LONGEST], str(form.get("kind", ""))
    wanted = [kind] if kind in KINDS else list(KINDS)
    tried = {name: _read(KINDS[name], text) for name in wanted}
    read = {name: value for name, value in tried.items() if not isinstance(value, list)}
    if read:
        name, value = next(iter(read.items()))
        return page(request, "viewer.html", text=text, found=(name, value), faults=[], kinds=list(KINDS), kind=kind)
    nearest = min(tried, key=lambda name: len(tried[name]))
    return page(
        request,
        "viewer.html",
        status=422,
        text=text,
        found=None,
        faults=[(nearest, fault) for fault in tried[nearest]],
        kinds=list(KINDS),
        kind=kind,
    )


def _read(model: type[Any], text: str) -> Any:
    """The object as plain JSON with its hash, or a list of what is wrong."""
    try:
        value = model.model_validate_json(text)
    except ValidationError as error:
        return [
            (".".join(str(part) for part in each["loc"]) or "the whole text", each["msg"])
            for each in error.errors(include_url=False, include_context=False)
        ]
    digest = value.hash() if hasattr(value, "hash") else None
    return {"json": value.model_dump(mode="json", exclude_unset=True), "hash": digest}


ROUTES = [PageRoute("/viewer", viewer, methods=["GET", "POST"])]
