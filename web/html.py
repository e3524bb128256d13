"""Pages out of templates, for those who ask for HTML: the same addresses give JSON to programs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.routing import Match, Route
from starlette.types import Scope

import kernelmill
from kernelmill.evaluator.report import wording
from kernelmill.evaluator.report.lines import read_ratio
from kernelmill.evaluator.statistics import Ratio
from kernelmill.leaderboard.api.context import service_of

HERE = Path(__file__).parent
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


class PageRoute(Route):
    """A page for a browser, or its table as CSV. Whoever asks for neither goes on to the next route of the address."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] == "http" and not (wants_html(scope) or b"format=csv" in scope["query_string"].split(b"&")):
            return Match.NONE, {}
        return super().matches(scope)


def wants_html(scope: Scope) -> bool:
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Every text is escaped, wherever it comes from."""
    values |= {"version": kernelmill.__version__, "can_sign_in": bool(service_of(request).settings.oidc_issuer)}
    body = _environment.get_template(template).render(request=request, **values)
    headers = {"Content-Security-Policy": POLICY, "Vary": "Accept, Cookie", "Cache-Control": "no-cache"}
    return HTMLResponse(body, status, headers=headers)


@dataclass(frozen=True, slots=True)
class Span:
    """Which rows of a longer list a page shows."""

    start: int
    size: int
    total: int

    @property
    def end(self) -> int:
        return min(self.start + self.size, self.total)

    @property
    def before(self) -> int | None:
        """Where the page before begins."""
        return max(0, min(self.start, self.total) - self.size) if self.start else None

    @property
    def after(self) -> int | None:
        return self.end if self.end < self.total else None


def whole(text: str | None) -> int:
    """A row's number out of a query; 0 for what is none."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 9 else 0


def ratio(told: dict[str, Any] | None) -> Ratio | None:
    """A speedup as the API tells it, as a value again."""
    return None if told is None else read_ratio(told)


def _speedup(told: dict[str, Any] | None) -> Markup:
    """The point, and its interval beside it."""
    return interval(ratio(told))


def interval(found: Ratio | None) -> Markup:
    """The same of a value."""
    if found is None:
        return Markup("–")
    return Markup('<b>{}</b> <small class="interval">{}</small>').format(
        wording.times(found.point), wording.bounds(found)
    )


def _breakable(name: str | None) -> Markup:
    """Escaped, with leave to break the line after each underscore."""
    return Markup("_<wbr>").join((name or "").split("_"))


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _make_environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    numbers = ("times", "between", "percent", "gain", "milliseconds", "rate")
    words = ("place", "counts", "some", "day", "printable")
    made.filters.update({name: getattr(wording, name) for name in (*numbers, *words)})
    made.filters.update(
        {"speedup": _speedup, "interval": interval, "breakable": _breakable, "pretty": _pretty, "fromjson": json.loads}
    )
    return made


_environment = _make_environment()


def compile_templates() -> None:
    """Else the first reader of each page waits for it."""
    for name in _environment.list_templates():
        _environment.get_template(name)
