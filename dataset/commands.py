"""`kernelmill validate`: what is wrong with a dataset, one finding a line."""

from __future__ import annotations

import json
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kernelmill.dataset.validate import Check

_USAGE = 2
_MUTANTS = "kernelmill.evaluator.mutants"


def register(app: typer.Typer) -> None:
    """Adds the `validate` command to `app`."""
    app.command("validate")(validate)


def validate(
    dataset: Annotated[
        Path | None, typer.Argument(help="KERNELMILL_DATASET, FIB_DATASET_PATH or the shipped dataset when left out.")
    ] = None,
    checks: Annotated[str, typer.Option(help="Names of checks, with commas between; all when left out.")] = "",
    mutants: Annotated[bool, typer.Option("--mutants", help="Also run wrong kernels, which must be caught.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Degenerate inputs and missing blobs are errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Check a dataset. Exits 0 without errors, 1 with errors, 2 on wrong usage or where there is no dataset."""
    from kernelmill.dataset.store import Dataset
    from kernelmill.dataset.validate import CHECKS
    from kernelmill.dataset.validate import validate as run
    from kernelmill.trace_schema import DatasetError

    known = {**CHECKS, "mutants": _mutants()} if mutants else CHECKS
    names = [name.strip() for name in checks.split(",") if name.strip()]
    if unknown := [name for name in names if name not in known]:
        message = f"no check is called {', '.join(unknown)}: choose from {', '.join(known)}"
        raise typer.BadParameter(message, param_hint="--checks")
    try:
        opened = Dataset.open(dataset)
    except DatasetError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(_USAGE) from error
    typer.echo(f"dataset: {opened.root}", err=True)
    severities: Counter[str] = Counter()
    for found in run(opened, names, strict=strict, checks=known, progress=_say):
        severities[found.severity] += 1
        typer.echo(json.dumps(found.as_json(), ensure_ascii=False) if as_json else str(found))
    counted = ", ".join(f"{count} {noun}" for noun, count in opened.counts().items())
    outcome = f"{severities['error']} errors, {severities['warning']} warnings, {severities['info']} notes"
    typer.echo(f"{counted}: {outcome}", err=True)
    raise typer.Exit(1 if severities["error"] else 0)


def _say(check: str) -> None:
    typer.echo(f"checking {check}", err=True)


def _mutants() -> Check:
    """The evaluator's check, which lies above this package and is asked for by name."""
    check: Check = import_module(_MUTANTS).check
    return check
