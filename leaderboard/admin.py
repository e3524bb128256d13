"""`kernelmill admin`: what an operator does, on the database itself. Each command leaves a line in the audit log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from kernelmill.leaderboard.shell import Url, database_of, fail, settings_of, told

app = typer.Typer(help="Operate the service, on its database.", no_args_is_help=True)
BY = "cli"


@app.command()
def migrate(database_url: Url = None) -> None:
    """Bring the database to the form that this version works with."""
    with database_of(database_url):
        typer.echo("kernelmill: the database is up to date", err=True)


@app.command()
def sync(dataset: Annotated[Path | None, typer.Argument(help="As in `run`.")] = None, database_url: Url = None) -> None:
    """Take in a dataset; a new edition opens if what makes a score has changed. Prints what was new, as JSON."""
    from dataclasses import asdict

    with database_of(database_url) as database:
        from kernelmill.dataset import Dataset
        from kernelmill.leaderboard import catalog
        from kernelmill.leaderboard.ingest import ingest

        opened = Dataset.open(dataset)
        with database.write() as connection:
            done = catalog.sync(connection, opened, by=BY)
        typer.echo(json.dumps({**asdict(done), "traces": ingest(database, opened)}))


@app.command()
def requeue(submission: str, database_url: Url = None) -> None:
    """Judge a submission again from the start: its verdicts are dropped."""
    with database_of(database_url) as database:
        from kernelmill.leaderboard import moderation

        with database.write() as connection:
            moderation.requeue(connection, submission, by=BY)


@app.command()
def hide(
    solution: str,
    undo: Annotated[bool, typer.Option("--undo", help="Show it again.")] = False,
    database_url: Url = None,
) -> None:
    """Take a solution (hash or name) off every list and board; nothing is deleted."""
    with database_of(database_url) as database:
        from kernelmill.leaderboard import moderation

        with database.write() as connection:
            moderation.hide(connection, solution, by=BY, undo=undo)


@app.command()
def ban(
    author: str,
    undo: Annotated[bool, typer.Option("--undo", help="Let them in again.")] = False,
    database_url: Url = None,
) -> None:
    """Take no more from an author, and leave their solutions off the boards."""
    with database_of(database_url) as database:
        from kernelmill.leaderboard import moderation

        with database.write() as connection:
            moderation.ban(connection, author, by=BY, undo=undo)


@app.command()
def quota(
    per_hour: Annotated[int, typer.Argument(min=0, help="Submissions an hour.")],
    author: Annotated[str | None, typer.Option(help="Everybody, if left out.")] = None,
    device_model: Annotated[str | None, typer.Option(help="Every device, if left out.")] = None,
    database_url: Url = None,
) -> None:
    """Set how often may be submitted."""
    with database_of(database_url) as database:
        from kernelmill.leaderboard import moderation

        with database.write() as connection:
            moderation.set_quota(connection, per_hour, author, device_model, by=BY)


@app.command()
def rescore(database_url: Url = None) -> None:
    """Rank everything anew from the stored traces. Exits 1 if a board was not what they say, and mends it."""
    with database_of(database_url) as database:
        from kernelmill.leaderboard import boards

        done = boards.rescore(database)
    typer.echo(json.dumps({"boards": done.boards, "different": done.different}))
    if done.different:
        fail(f"{len(done.different)} boards were not what the traces say; they are now", 1)


@app.command()
def backup(file: Annotated[Path, typer.Argument(help="Must not exist.")], database_url: Url = None) -> None:
    """Copy the embedded database while it is in use; PostgreSQL has pg_dump (docs/service.md)."""
    with database_of(database_url) as database:
        from kernelmill.leaderboard.backup import back_up

        back_up(database, file)


@app.command()
def restore(file: Annotated[Path, typer.Argument(help="A backup.")], database_url: Url = None) -> None:
    """Put a backup where the embedded database was; stop the service and move the old one away first."""
    with told():
        from kernelmill.leaderboard.backup import restore as put_back
        from kernelmill.leaderboard.db.engine import sqlite_file

        put_back(file, sqlite_file(settings_of(database_url=database_url).url))
    migrate(database_url)


@app.command()
def dispatch() -> None:
    """Judge what is queued, on this host's devices or a Ray cluster; settings come from the environment."""
    from kernelmill.leaderboard.dispatch import main

    main()
