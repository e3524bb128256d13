"""The report as one HTML file that opens offline: nothing is fetched, and nothing but its own script may run."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kernelmill.evaluator.report import charts, wording
from kernelmill.evaluator.report.boards import Board, Report
from kernelmill.evaluator.scoring import Entry, Score
from kernelmill.evaluator.statistics import Ratio

HERE = Path(__file__).parent
MAX_CURVES = 6
MAX_ROWS = 20
MAX_COLUMNS = 8
_POLICY = "default-src 'none'; style-src '{style}'; script-src '{script}'; base-uri 'none'; form-action 'none'"
_FILTERS = ("times", "bounds", "percent", "place", "gain", "milliseconds", "counts", "some", "day")


@dataclass(frozen=True, slots=True)
class Stack:
    """One author's verdicts."""

    author: str
    verdicts: dict[str, int]
    segments: Sequence[charts.Segment]


@dataclass(frozen=True, slots=True)
class View:
    """A board with what its charts need. `scores` are the judged definitions, the largest gain first."""

    board: Board
    scores: Sequence[Score]
    axis: charts.Axis
    gain_axis: charts.Axis
    curve_axis: charts.Axis
    curves: Sequence[charts.Curve]
    stacks: Sequence[Stack]


def render_page(report: Report) -> str:
    """The whole page. Every text from the dataset is escaped; script and style are pinned by their hashes."""
    style, script = (HERE / "page.css").read_text("utf-8"), (HERE / "page.js").read_text("utf-8")
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update({name: getattr(wording, name) for name in _FILTERS}, breakable=_breakable)
    return environment.get_template("page.html").render(
        report=report,
        views=[_view(board) for board in report.boards],
        style=Markup(style),
        script=Markup(script),
        policy=_POLICY.format(style=_pin(style), script=_pin(script)),
        made_so=wording.MADE_SO,
        bar=charts.bar,
        stack=charts.stack,
        groups=list(charts.GROUPS),
        max_curves=MAX_CURVES,
        max_rows=MAX_ROWS,
        max_columns=MAX_COLUMNS,
    )


def _breakable(name: str) -> Markup:
    """Escaped, with leave to break the line after each underscore."""
    return Markup("_<wbr>").join(name.split("_"))


def _pin(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _view(board: Board) -> View:
    entries = [entry for each in board.judged for entry in each.entries if entry.rank is not None]
    gains = [each.best_mix.speedup for each in board.judged] + [author.speedup for author in board.authors]
    geomeans = [entry.geomean for entry in entries if entry.geomean is not None]
    pools = _pools(board)
    curve_axis = charts.ratio_axis([0.5, 2.0, *(ratio for ratios in pools.values() for ratio in ratios)])
    return View(
        board=board,
        scores=sorted(board.judged, key=lambda each: -each.best_mix.speedup.point),
        axis=charts.ratio_axis([*_bounds(entry.speedup for entry in entries), *geomeans]),
        gain_axis=charts.ratio_axis(_bounds(gains)),
        curve_axis=curve_axis,
        curves=[charts.curve(curve_axis, name, ratios) for name, ratios in list(pools.items())[: MAX_CURVES + 1]],
        stacks=[_stack(author.author, board) for author in board.authors],
    )


def _bounds(ratios: Iterable[Ratio]) -> list[float]:
    return [bound for ratio in ratios for bound in (ratio.lo, ratio.point, ratio.hi)]


def _pools(board: Board) -> dict[str, list[float]]:
    """Ratios over all workloads of the judged definitions, of the best mix and then of each author's best entries."""
    pools = {"best mix": [ratio for each in board.judged for ratio in _mixed(each)]}
    for author in board.authors:
        name = author.author if author.author != "best mix" else "best mix (author)"
        best = {definition: standing.solution for definition, standing in author.best.items()}
        pools[name] = [ratio for each in board.judged for ratio in _ratios(each, best.get(each.definition))]
    return pools


def _mixed(score: Score) -> list[float]:
    """What the best mix makes of each workload: the baseline's 1 where nothing replaces it."""
    by_name = {entry.solution: entry for entry in score.entries}
    return [
        by_name[choice.solution].ratios[choice.workload.uuid]
        if choice.solution is not None
        else float(choice.workload.uuid in score.baseline_ms)
        for choice in score.best_mix.choices
    ]


def _ratios(score: Score, solution: str | None) -> list[float]:
    """One solution's, workload by workload; 0 throughout without one."""
    entry = next((entry for entry in score.entries if entry.solution == solution), None)
    return list(entry.ratios.values()) if entry else [0.0] * len(score.workloads)


def _stack(author: str, board: Board) -> Stack:
    verdicts: Counter[str] = Counter()
    for score, entry in _entries_of(author, board):
        verdicts.update(entry.verdicts)
        verdicts["NOT_JUDGED"] += len(score.workloads) - len(entry.findings)
    return Stack(author, dict(+verdicts), charts.stack(verdicts))


def _entries_of(author: str, board: Board) -> list[tuple[Score, Entry]]:
    return [(score, entry) for score in board.judged for entry in score.entries if entry.author == author]
