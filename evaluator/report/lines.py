"""The report as JSON lines: one object for each board, row, best mix, author and reason for leaving traces out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isinf, isnan
from typing import Any

from kernelmill.evaluator.authors import AuthorScore
from kernelmill.evaluator.report.boards import Board, Report
from kernelmill.evaluator.scoring import Entry, Score
from kernelmill.evaluator.statistics import Ratio


def json_lines(report: Report) -> Iterator[dict[str, Any]]:
    """`kind` says what a line is: report, board, entry, best_mix, author or ignored. Non-finite numbers are strings."""
    header = {"version": report.version, "made_at": report.made_at, "definitions": report.definitions}
    yield {"kind": "report", **header}
    for board in report.boards:
        yield _board(board)
        for score in board.judged:
            place = {"device_model": board.device_model, "definition": score.definition, "op_type": score.op_type}
            for entry in score.entries:
                yield {"kind": "entry", **place, **entry_line(entry)}
            yield {"kind": "best_mix", **place, **_best_mix(score)}
        for author in board.authors:
            yield {"kind": "author", "device_model": board.device_model, **_author(author)}
    for reason, count in report.ignored.items():
        yield {"kind": "ignored", "reason": reason, "traces": count}


def _board(board: Board) -> dict[str, Any]:
    made = board.conditions
    return {
        "kind": "board",
        "device_model": board.device_model,
        "definitions": len(board.scores),
        "judged_definitions": len(board.judged),
        "workloads": board.workloads,
        "solutions": board.solutions,
        "best_mix": ratio_line(board.best_mix),
        "judge_versions": list(made.judge_versions),
        "clocks": list(made.clocks),
        "sandboxes": list(made.sandboxes),
        "first_judged": made.first_judged,
        "last_judged": made.last_judged,
    }


def entry_line(entry: Entry) -> dict[str, Any]:
    return {**entry_head(entry), "ratios": {uuid: number(ratio) for uuid, ratio in entry.ratios.items()}}


def entry_head(entry: Entry) -> dict[str, Any]:
    """What is said of it as a whole."""
    return {
        "rank": entry.rank,
        "tied": entry.tied,
        "solution": entry.solution,
        "solution_hash": entry.solution_hash,
        "author": entry.author,
        "language": entry.language,
        "is_baseline": entry.is_baseline,
        "off_board": entry.off_board,
        "speedup": ratio_line(entry.speedup) if entry.rank is not None else None,
        "pass_rate": entry.pass_rate,
        "coverage": entry.coverage,
        "geomean": number(entry.geomean),
        "roofline": number(entry.roofline),
        "verdicts": dict(entry.verdicts),
        "first_judged": entry.first_judged,
    }


def _best_mix(score: Score) -> dict[str, Any]:
    return {
        "speedup": ratio_line(score.best_mix.speedup),
        "choices": [
            {"workload": choice.workload.uuid, "solution": choice.solution, "why": choice.why}
            for choice in score.best_mix.choices
        ],
    }


def _author(author: AuthorScore) -> dict[str, Any]:
    return {
        "rank": author.rank,
        "tied": author.tied,
        "author": author.author,
        "log_gain": number(author.log_gain),
        "speedup": ratio_line(author.speedup),
        "improved": author.improved,
        "attempted": author.attempted,
        "all": author.all,
        "best": {definition: entry.solution for definition, entry in author.best.items()},
    }


def ratio_line(ratio: Ratio) -> dict[str, Any]:
    return {"ratio": number(ratio.point), "ci95": [number(ratio.lo), number(ratio.hi)], "interval": ratio.kind}


def read_ratio(told: Mapping[str, Any]) -> Ratio:
    """The value behind a `ratio_line`."""
    point, (lo, hi) = told["ratio"], told["ci95"]
    return Ratio(float(point), float(lo), float(hi), told["interval"])


def number(value: float | None) -> float | str | None:
    if value is None or not (isnan(value) or isinf(value)):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
