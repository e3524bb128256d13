"""`kernelmill derive`: workloads out of recorded traffic."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kernelmill.trace_schema.errors import DatasetError


class Split(StrEnum):
    """Which workloads are made."""

    PUBLIC = "public"
    HIDDEN = "hidden"


def register(app: typer.Typer) -> None:
    """Adds the `derive` command to `app`."""
    app.command("derive")(derive)


def derive(
    requests: Annotated[Path, typer.Option(help="Folder with the request traces, in any sub-folders; or one trace.")],
    dataset: Annotated[
        Path | None, typer.Option(help="KERNELMILL_DATASET, FIB_DATASET_PATH or the shipped dataset when left out.")
    ] = None,
    definition: Annotated[list[str] | None, typer.Option("--definition", "-d", help="Only these; all if none.")] = None,
    split: Annotated[Split, typer.Option(help="hidden: other steps of the same traffic, into --out.")] = Split.PUBLIC,
    seed: Annotated[
        str | None, typer.Option(envvar="KERNELMILL_HIDDEN_SEED", help="Secret that draws the hidden steps.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Dataset folder for the hidden split, outside any repository.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Serve every trace with this model.")] = None,
    tp: Annotated[int, typer.Option(help="Cards of one replica of --model.", min=1)] = 1,
    load: Annotated[str | None, typer.Option(help="Only this load point: calm or busy.")] = None,
) -> None:
    """Replay request traces through a serving engine's scheduler and keep the steps that stand for all.

    Exits 0; 2 where the traces, the dataset or a rule is missing.
    """
    from kernelmill.dataset.derive import derive as deriving
    from kernelmill.dataset.derive import traffic
    from kernelmill.dataset.paths import default_path

    root = dataset or default_path()
    try:
        served = traffic.plan(requests, model=model, tp=tp, load=load)
        if split is Split.PUBLIC:
            deriving.derive_public(root, served, definition or (), _say)
        elif seed is None or out is None:
            raise DatasetError("the hidden split needs --out and a secret --seed (or KERNELMILL_HIDDEN_SEED)")
        else:
            deriving.derive_hidden(root, out, served, seed, definition or (), _say)
    except DatasetError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


def _say(line: str) -> None:
    typer.echo(line, err=True)
