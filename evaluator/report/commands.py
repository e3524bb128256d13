"""`kernelmill report`: the leaderboard from stored traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelmill.trace_schema.errors import DatasetError

if TYPE_CHECKING:
    from kernelmill.evaluator.report.boards import Report

WIDTH = 100


def register(app: typer.Typer) -> None:
    """Adds the `report` command to `app`."""
    app.command("report")(report)


def report(
    dataset: Annotated[
        Path | None, typer.Argument(help="Dataset folder; the environment's or the shipped one if left out.")
    ] = None,
    device_model: Annotated[
        str | None, typer.Option(help="Only this device model; all, one by one, if left out.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines instead of tables.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also write the report as one HTML file.")] = None,
    accept_unsandboxed: Annotated[
        bool, typer.Option("--accept-unsandboxed", help="Count traces that were judged without a sandbox, too.")
    ] = False,
) -> None:
    """Print the leaderboard that the stored traces make."""
    from kernelmill.dataset import Dataset
    from kernelmill.evaluator.report.boards import build_report
    from kernelmill.evaluator.report.lines import json_lines

    try:
        opened = Dataset.open(dataset)
        typer.echo(f"dataset: {opened.root}", err=True)
        made = build_report(opened, device_model, accept_unsandboxed=accept_unsandboxed)
    except DatasetError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    if html is not None:
        from kernelmill.evaluator.report.page import render_page

        html.parent.mkdir(parents=True, exist_ok=True)
        html.write_text(render_page(made), encoding="utf-8")
        typer.echo(f"wrote {html}", err=True)
    if as_json:
        for line in json_lines(made):
            typer.echo(json.dumps(line))
    else:
        _print(made)


def _print(made: Report) -> None:
    from rich.console import Console

    from kernelmill.evaluator.report.terminal import render_terminal

    console = Console(soft_wrap=False)
    if not console.is_terminal or console.width > WIDTH:
        console.width = WIDTH
    for part in render_terminal(made):
        console.print(part)
