"""The report on a terminal of 100 columns. Names are foreign text: no markup and no control character in them acts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from kernelmill.evaluator.report.boards import Board, Report
from kernelmill.evaluator.report.wording import bounds, counts, day, gain, place, printable, some, times
from kernelmill.evaluator.scoring import Entry, Score
from kernelmill.evaluator.statistics import Ratio

NOTHING = (
    "Nothing judged yet: no stored trace counts. Judge the solutions on this machine, then ask again:\n"
    "  kernelmill run DATASET\n"
    "  kernelmill report DATASET"
)


def render_terminal(report: Report) -> Iterator[RenderableType]:
    """What to print, in order."""
    if not report.boards:
        yield Text(NOTHING)
    for board in report.boards:
        yield from _board(board)
    yield Text()
    if report.ignored:
        left_out = ", ".join(f"{count} {reason}" for reason, count in report.ignored.items())
        yield Text(f"Traces left out: {left_out}", style="dim")
    if report.boards:
        marks = "= tied within the intervals   † interval within its sessions only   – no rank"
        yield Text(marks, style="dim")


def _board(board: Board) -> Iterator[RenderableType]:
    yield Text(f"\n{printable(board.device_model)}", style="bold")
    yield Text(_facts(board), style="dim")
    for score in board.judged:
        yield Text()
        yield _definition(score)
        for entry in score.entries:
            if entry.off_board:
                yield _cell(f"removed {entry.solution}: {entry.off_board}")
    yield Text()
    yield _summary(board)
    if board.authors:
        yield Text()
        yield _authors(board)


def _facts(board: Board) -> str:
    made = board.conditions
    facts = [
        f"{len(board.judged)} of {some(len(board.scores), 'definition')}",
        some(board.workloads, "workload"),
        some(board.solutions, "solution"),
        f"judge {', '.join(made.judge_versions)}",
        f"sandbox {', '.join(made.sandboxes)}",
        f"clock {'; '.join(made.clocks) or 'none'}",
        f"judged {' to '.join(dict.fromkeys([day(made.first_judged), day(made.last_judged)]))}",
    ]
    return printable(" · ".join(facts))


def _definition(score: Score) -> Table:
    table = _table(f"{score.definition} ({some(len(score.workloads), 'workload')})")
    table.add_column("", justify="right", width=3)
    table.add_column("solution", ratio=2, overflow="fold")
    table.add_column("author", width=_width([entry.author for entry in score.entries]), overflow="fold")
    table.add_column("lang", width=8, no_wrap=True)
    table.add_column("deployed", justify="right", width=17)
    table.add_column("passed", justify="right", width=6)
    table.add_column("geomean", justify="right", width=7)
    table.add_column("verdicts", ratio=1, min_width=14, overflow="fold")
    for entry in score.entries:
        table.add_row(*map(_cell, _row(entry, len(score.workloads))), style=_style(entry))
    table.add_row("", Text("best mix", style="italic"), "", "", _cell(_speedup(score.best_mix.speedup)), "", "", "")
    return table


def _width(names: Sequence[str | None]) -> int:
    return min(14, max(6, *(len(name or "") for name in names)))


def _row(entry: Entry, workloads: int) -> Sequence[str]:
    return (
        place(entry.rank, entry.tied),
        entry.solution,
        entry.author or "",
        entry.language or "",
        _speedup(entry.speedup) if entry.rank is not None else "removed" if entry.off_board else "not timed",
        "–" if entry.pass_rate is None else f"{entry.verdicts.get('PASSED', 0)}/{workloads}",
        times(entry.geomean),
        "the baseline" if entry.is_baseline else counts(entry.verdicts),
    )


def _style(entry: Entry) -> str:
    return "dim" if entry.is_baseline else "red" if entry.off_board else ""


def _summary(board: Board) -> Table:
    table = _table("Definitions")
    table.add_column("definition", ratio=3, overflow="fold")
    table.add_column("ranked first", ratio=2, overflow="fold")
    table.add_column("deployed", justify="right", width=17)
    table.add_column("best mix", justify="right", width=17)
    for score in board.judged:
        first = [entry for entry in score.entries if entry.rank == 1]
        tied = f" and {len(first) - 1} tied" if len(first) > 1 else ""
        name, speedup = (first[0].solution + tied, _speedup(first[0].speedup)) if first else ("–", "–")
        table.add_row(*map(_cell, (score.definition, name, speedup, _speedup(score.best_mix.speedup))))
    table.add_section()
    table.add_row(_cell("geometric mean"), "", "", _cell(_speedup(board.best_mix)))
    return table


def _authors(board: Board) -> Table:
    table = _table("Authors")
    table.add_column("", justify="right", width=3)
    table.add_column("author", ratio=1, overflow="fold")
    table.add_column("speedup", justify="right", width=17)
    table.add_column("log gain", justify="right", width=8)
    table.add_column("improved / attempted / all", justify="right", width=26)
    for author in board.authors:
        tally = f"{author.improved} / {author.attempted} / {author.all}"
        rank = place(author.rank, author.tied)
        table.add_row(*map(_cell, (rank, author.author, _speedup(author.speedup), gain(author.log_gain), tally)))
    return table


def _table(title: str) -> Table:
    return Table(
        title=_cell(title),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        expand=True,
    )


def _speedup(ratio: Ratio) -> str:
    return f"{times(ratio.point)} {bounds(ratio)}"


def _cell(text: str) -> Text:
    return Text(printable(text))
