"""The `kernelmill` command: wires the commands of each folder and does nothing itself."""

from __future__ import annotations

import sys
from importlib import import_module

import typer

COMMANDS = (
    "kernelmill.evaluator.commands",
    "kernelmill.evaluator.tools.commands",
    "kernelmill.dataset.commands",
    "kernelmill.dataset.derive.commands",
    "kernelmill.evaluator.report.commands",
    "kernelmill.trace_schema.commands",
    "kernelmill.leaderboard.commands",
    "kernelmill.agents.commands",
    "kernelmill.apply.commands",
)

app = typer.Typer(
    name="kernelmill",
    help="Judge, rank and substitute LLM inference kernels. Data on stdout, progress on stderr.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def version(wanted: bool) -> None:
    if wanted:
        from kernelmill import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    show_version: bool = typer.Option(False, "--version", callback=version, is_eager=True, help="Print the version."),
) -> None:
    pass


for module in COMMANDS:
    import_module(module).register(app)


def main() -> None:
    if hooks := sys.modules.get("kernelmill.apply.arming.hooks"):
        hooks.disarm()  # a judge must not be substituted itself
    app()
