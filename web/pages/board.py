"""The board: authors (agents, people), kernels and languages, on one device model in one edition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from fastapi import Request
from sqlalchemy import Connection, select
from starlette.datastructures import QueryParams
from starlette.responses import Response

from kernelmill.dataset import catalogue
from kernelmill.evaluator.authors import WIN_AT
from kernelmill.evaluator.report import charts, wording
from kernelmill.evaluator.report.lines import ratio_line, read_ratio
from kernelmill.evaluator.statistics import ONE, Ratio, mean_ratio
from kernelmill.leaderboard import architectures, ranking
from kernelmill.leaderboard.api.context import Service, service_of
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.ranking import Head
from kernelmill.web import effort, sheet
from kernelmill.web.html import PageRoute, Span, page, ratio, whole

TABS = {
    "author": "Authors",
    "agent": "Agents",
    "person": "People",
    "solution": "Kernels",
    "language": "Languages",
}
PAGE = 50
SPEEDUP = ("speedup", "speedup_low", "speedup_high")
TOLD = ("log_gain", "improved", "attempted", "rank", "pass_rate")
WON = tuple(f"won_at_{p:g}" for p in WIN_AT)
TOOK = ("evaluations", "tokens", "cost_usd", "budget")
WRONG = frozenset({"INCORRECT_SHAPE", "INCORRECT_DTYPE", "INCORRECT_NUMERICAL"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the query asks for. `serves` is the id of a model: only the kernels that it calls.

    `language` is the leader's and `since` the day from which on a board changed: of kernels only.
    """

    tab: str
    device_model: str | None
    op_type: str | None
    serves: str | None
    language: str | None
    since: str | None
    start: int

    @classmethod
    def of(cls, query: QueryParams) -> Self:
        tab = query.get("by", "author")
        device, op_type, serves = (query.get(name) or None for name in ("device_model", "op_type", "serves"))
        language, since = (query.get(name) or None for name in ("language", "since"))
        tab = tab if tab in TABS else "author"
        return cls(tab, device, op_type, serves, language, since, whole(query.get("start")))

    @property
    def by(self) -> Any:
        return "author" if self.tab in ("agent", "person") else self.tab

    @property
    def among(self) -> frozenset[str] | None:
        """Raises NotFound."""
        return None if self.serves is None else architectures.calls(self.serves)


def board(request: Request) -> Response:
    service, wanted = service_of(request), Wanted.of(request.query_params)
    with service.database.read() as connection:
        edition = ranking.edition(connection, request.query_params.get("edition") or None)
        everything = ranking.heads(connection, edition.id)
        models = sorted({head.device_model for head in everything})
        wanted = replace(wanted, device_model=wanted.device_model or (models[0] if models else None))
        heads = [head for head in everything if _fits(head, wanted)]
        summaries = service.ranking.summaries(connection, edition.id, heads)
        rows = _rows(service, connection, edition.id, heads, summaries, wanted)
        mix = _mix(_names(connection, edition.id, wanted), heads, summaries)
        editions = list(connection.scalars(select(t.Edition.name).order_by(t.Edition.id.desc())))
    if sheet.wanted(request):
        return sheet.sheet("board", ["name", *SPEEDUP, *TOLD, *WON, *TOOK], map(_line, rows))
    shown = rows[wanted.start : wanted.start + PAGE]
    speedups = [ratio(_speedup(row, wanted.by)) for row in shown]
    axis = charts.ratio_axis(
        each for found in [*speedups, mix["speedup"]] if found for each in (found.point, found.lo, found.hi)
    )
    return page(
        request,
        "board.html",
        by=wanted.by,
        tab=wanted.tab,
        tabs=TABS,
        rows=shown,
        mix=mix,
        span=Span(wanted.start, PAGE, len(rows)),
        edition=edition,
        editions=editions,
        models=models,
        model=wanted.device_model,
        op_type=wanted.op_type,
        op_types=sorted({head.op_type for head in everything}),
        serves=wanted.serves,
        language=wanted.language,
        languages=sorted({language for summary in summaries for language in summary["languages"]}),
        since=wanted.since,
        served=[one.id for one in catalogue.models()],
        axis=axis,
        bar=lambda row: charts.bar(axis, ratio(_speedup(row, wanted.by)) or ONE),
        mix_bar=charts.bar(axis, mix["speedup"]),
        by_op=_by_op(shown, heads) if wanted.by == "language" else {},
        made_so=wording.MADE_SO,
    )


def _fits(head: Head, wanted: Wanted) -> bool:
    return (
        head.device_model == wanted.device_model
        and wanted.op_type in (None, head.op_type)
        and (wanted.among is None or head.definition in wanted.among)
    )


def _names(connection: Connection, edition: int, wanted: Wanted) -> list[str]:
    """The edition's definitions, or those of them that are asked for."""
    names = ranking.listed(connection, edition, wanted.op_type)
    return [name for name in names if wanted.among is None or name in wanted.among]


def _rows(
    service: Service,
    connection: Connection,
    edition: int,
    heads: Sequence[Head],
    summaries: Sequence[dict[str, Any]],
    wanted: Wanted,
) -> list[dict[str, Any]]:
    if wanted.by == "solution" or not heads:
        return [
            {"definition": head.definition, "op_type": head.op_type, **summary}
            for head, summary in zip(heads, summaries, strict=True)
            if wanted.since is None or head.updated_at >= wanted.since
            if wanted.language in (None, (summary["leader"] or {}).get("language"))
        ]
    rows = service.ranking.standings(connection, edition, heads, wanted.by, wanted.op_type, wanted.among)
    if wanted.tab in ("agent", "person"):
        kind = set(connection.scalars(select(t.Author.name).where(t.Author.kind == wanted.tab)))
        rows = [row for row in rows if row["name"] in kind]
        took = effort.efforts(connection, rows) if wanted.tab == "agent" else {}
        return [{**row, "effort": took.get(row["name"])} for row in rows]
    if wanted.tab == "language":
        return [{**row, "verdicts": _verdicts(row["name"], summaries)} for row in rows]
    return rows


def _mix(names: Sequence[str], heads: Sequence[Head], summaries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What all solutions together gain over the whole list: where there is no board, the baseline stays."""
    found = {
        head.definition: read_ratio(summary["best_mix"]["speedup"])
        for head, summary in zip(heads, summaries, strict=True)
    }
    speedups = [found.get(name, ONE) for name in names]
    improved = sum(speedup.lo > 1 for speedup in speedups)
    return {"speedup": mean_ratio(speedups), "improved": improved, "attempted": len(found), "all": len(speedups)}


def _line(row: dict[str, Any]) -> list[sheet.Cell]:
    """Of kernels those columns stay empty that only authors and languages have, of others what only agents tell."""
    by = "solution" if "best_mix" in row else "author"
    told = _speedup(row, by) or {"ratio": None, "ci95": (None, None)}
    name = row["definition"] if by == "solution" else row["name"]
    rest = [row.get(column) for column in TOLD]
    won = [row.get("wins", {}).get(f"{p:g}") for p in WIN_AT]
    took = [getattr(row.get("effort"), column, None) for column in TOOK]
    return [name, told["ratio"], *told["ci95"], *rest, *won, *took]


def _by_op(rows: Sequence[dict[str, Any]], heads: Sequence[Head]) -> dict[str, dict[str, dict[str, Any]]]:
    """By op type and language: the mean speedup of its best kernels, and how many are surely faster."""
    op_types = {head.definition: head.op_type for head in heads}
    found: dict[str, dict[str, dict[str, Any]]] = {op_type: {} for op_type in sorted(set(op_types.values()))}
    for row in rows:
        own: dict[str, list[Ratio]] = {}
        for definition, best in row["best"].items():
            own.setdefault(op_types[definition], []).append(read_ratio(best["speedup"]))
        for op_type, speedups in own.items():
            found[op_type][row["name"]] = {
                "speedup": ratio_line(mean_ratio(speedups)),
                "faster": sum(speedup.lo > 1 for speedup in speedups),
                "judged": len(speedups),
            }
    return found


def _verdicts(language: str, summaries: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Shares of a language's verdicts: passed, failed to build, wrong, and whatever else went wrong."""
    counts = Counter[str]()
    for summary in summaries:
        counts.update(summary["languages"].get(language, {}))
    total = max(1, counts.total())
    wrong = sum(counts[verdict] for verdict in WRONG)
    shares = {"passed": counts["PASSED"], "build": counts["COMPILE_ERROR"], "wrong": wrong}
    shares["other"] = counts.total() - sum(shares.values())
    return {name: count / total for name, count in shares.items()}


def _speedup(row: dict[str, Any], by: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = row["best_mix"]["speedup"] if by == "solution" else row["speedup"]
    return found


ROUTES = [PageRoute("/leaderboard", board)]
