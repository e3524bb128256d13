"""Scores as the API tells them. Non-finite numbers are strings, as in files."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection
from typing import Any

from kernelmill.evaluator.authors import AuthorScore
from kernelmill.evaluator.report.lines import entry_head, number, ratio_line
from kernelmill.evaluator.scoring import Score
from kernelmill.evaluator.selection import calls_ms

FAST_P = {f"{p:g}": p for p in (0.0, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0)}


def entries(score: Score, hidden: Collection[str]) -> list[dict[str, Any]]:
    """Rows of a board in order, with fast_p in place of every single ratio: `heat` has those.

    `hidden` are uuids that a reader must not learn, as from the reason why somebody is off the board.
    """
    rows = []
    for entry in score.entries:
        row = entry_head(entry)
        if entry.off_board and any(uuid in entry.off_board for uuid in hidden):
            row["off_board"] = f"{entry.off_board.partition(' on ')[0]} on a hidden workload"
        row["fast_p"] = _fast_p(entry.ratios.values())
        rows.append(row)
    return rows


def _fast_p(ratios: Collection[float]) -> dict[str, float]:
    """`scoring.fast_p` of each of FAST_P, from one look at the ratios."""
    ordered, count = sorted(ratios), len(ratios)
    return {name: (count - bisect_right(ordered, p)) / count if count else 0.0 for name, p in FAST_P.items()}


def summary(score: Score) -> dict[str, Any]:
    """The head of a board."""
    leader = next((entry for entry in score.entries if entry.rank is not None and not entry.is_baseline), None)
    baseline = next((entry for entry in score.entries if entry.is_baseline), None)
    made = score.conditions
    return {
        "workloads": len(score.workloads),
        "solutions": sum(not entry.is_baseline for entry in score.entries),
        "baseline": baseline.solution if baseline else None,
        "baseline_ms": _baseline_ms(score),
        "leader": _leader(entry_head(leader)) if leader else None,
        "best_mix": best_mix(score),
        "languages": _verdicts_by_language(score),
        "judge_versions": list(made.judge_versions),
        "clocks": list(made.clocks),
        "sandboxes": list(made.sandboxes),
        "first_judged": made.first_judged,
        "last_judged": made.last_judged,
        "ignored": dict(score.ignored),
    }


def _baseline_ms(score: Score) -> float | None:
    """Mean time of a call on the baseline over the calls that the workloads stand for; None where none was timed."""
    calls = sum(
        1.0 if each.weight is None else each.weight for each in score.workloads if each.uuid in score.baseline_ms
    )
    return sum(calls_ms(score.workloads, score.baseline_ms).values()) / calls if calls else None


def _verdicts_by_language(score: Score) -> dict[str, dict[str, int]]:
    """How many verdicts of each kind; baselines are left out."""
    found: dict[str, Counter[str]] = {}
    for entry in score.entries:
        if entry.language and not entry.is_baseline:
            found.setdefault(entry.language, Counter()).update(entry.verdicts)
    return {language: dict(sorted(counts.items())) for language, counts in sorted(found.items())}


def best_mix(score: Score) -> dict[str, Any]:
    """What a deployment could install, workload by workload; `ratio` only where a solution replaces the baseline."""
    by_name = {entry.solution: entry for entry in score.entries}
    choices = []
    for choice in score.best_mix.choices:
        entry = by_name.get(choice.solution or "")
        finding = entry.findings[choice.workload.uuid] if entry else None
        choices.append(
            {
                "workload": choice.workload.uuid,
                "axes": dict(choice.workload.axes),
                "weight": choice.workload.weight,
                "baseline_ms": number(score.baseline_ms.get(choice.workload.uuid)),
                "solution": choice.solution,
                "solution_hash": entry.solution_hash if entry else None,
                "ratio": ratio_line(finding.ratio) if finding and finding.ratio else None,
                "why": choice.why,
            }
        )
    return {"speedup": ratio_line(score.best_mix.speedup), "choices": choices}


def standing(row: AuthorScore) -> dict[str, Any]:
    """An author's or a language's row."""
    return {
        "rank": row.rank,
        "tied": row.tied,
        "name": row.author,
        "log_gain": number(row.log_gain),
        "speedup": ratio_line(row.speedup),
        "improved": row.improved,
        "attempted": row.attempted,
        "all": row.all,
        "pass_rate": number(row.pass_rate),
        "wins": {f"{p:g}": won for p, won in row.wins.items()},
        "first_judged": row.first_judged,
        "best": {
            definition: {
                "solution": each.solution,
                "solution_hash": each.solution_hash,
                "speedup": ratio_line(each.speedup),
            }
            for definition, each in row.best.items()
        },
    }


def _leader(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("solution", "solution_hash", "author", "language", "speedup", "tied")}
