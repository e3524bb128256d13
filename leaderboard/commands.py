"""The service's commands: serve, token, submit, watch, admin."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kernelmill.leaderboard import admin
from kernelmill.leaderboard.shell import Url, database_of, fail, settings_of, told

if TYPE_CHECKING:
    from kernelmill.leaderboard.client import Client, Told

Server = Annotated[str | None, typer.Option(help="The service's address.", show_default="KERNELMILL_SERVER")]
JUDGED_AND_NOT_PASSED = 3
token_app = typer.Typer(help="Make, list and revoke tokens.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    for command in (serve, submit, watch):
        app.command()(command)
    app.add_typer(token_app, name="token")
    app.add_typer(admin.app, name="admin")


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    database_url: Url = None,
    dataset: Annotated[Path | None, typer.Option(help="What is measured.", show_default="as in `run`")] = None,
    executor: Annotated[
        Literal["local", "ray", "none"] | None, typer.Option(help="What judges; none: another process does.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="As in `run`.")] = None,
    auth: Annotated[bool | None, typer.Option("--auth/--no-auth", help="Whether tokens are asked for.")] = None,
) -> None:
    """Run the service: API, site and evaluation."""
    with told():
        from kernelmill.leaderboard import log
        from kernelmill.leaderboard import serve as service
        from kernelmill.leaderboard.db.engine import Database

        settings = settings_of(database_url=database_url, executor=executor, device=device, auth=auth)
        log.set_up(settings.log_level)
        service.check_exposure(host, settings)
        settings.check_sign_in()
        listener = service.bind(host, port)
        if dataset is not None:
            os.environ["KERNELMILL_DATASET"] = str(dataset.resolve())
        database = Database(settings.url)
        service.prepare(database, settings, dataset)
        database.close()
        fd = listener.fileno()
        children = [service.Child("api", "api.__main__", [str(fd)], [fd])]
        if settings.executor != "none":
            children.append(service.Child("dispatcher", "dispatch"))
        address = f"http://{host if ':' not in host else f'[{host}]'}:{listener.getsockname()[1]}"
        service.run(children, settings, lambda: typer.echo(f"kernelmill: {address}", err=True))


@token_app.command("create")
def create_token(
    name: Annotated[str, typer.Option(help="The author that it is for; made if need be.")],
    scopes: Annotated[str, typer.Option(help="Of read, submit, admin; with commas.")] = "submit,read",
    expires_days: Annotated[float | None, typer.Option(min=0, help="Valid for so many days.")] = None,
    agent: Annotated[bool, typer.Option("--agent", help="The author is an agent, not a person.")] = False,
    model: Annotated[str | None, typer.Option(help="An agent's model.")] = None,
    harness: Annotated[str | None, typer.Option(help="What runs the model.")] = None,
    database_url: Url = None,
) -> None:
    """Print a new token; it is shown this once."""
    with database_of(database_url) as database:
        from kernelmill.leaderboard import tokens

        wanted = tokens.parse_scopes(scopes)
        with database.write() as connection:
            kind: tokens.Kind = "agent" if agent else "person"
            author = tokens.ensure_author(connection, name, kind, model=model, harness=harness)
            typer.echo(tokens.create(connection, author, wanted, expires_days, by="cli"))


@token_app.command("list")
def list_tokens(database_url: Url = None) -> None:
    """Every token, without its secret: one JSON object a line."""
    with database_of(database_url) as database:
        from kernelmill.leaderboard import tokens

        with database.read() as connection:
            for row in tokens.listed(connection):
                typer.echo(json.dumps(row, default=str))


@token_app.command("revoke")
def revoke_token(number: Annotated[int, typer.Argument(help="Of `token list`.")], database_url: Url = None) -> None:
    """Make a token invalid, from the next request on."""
    with database_of(database_url) as database:
        from kernelmill.leaderboard import tokens

        with database.write() as connection:
            tokens.revoke(connection, number, by="cli")


def submit(
    solution: Annotated[Path, typer.Argument(help="A Solution file.")],
    server: Server = None,
    device_model: Annotated[str | None, typer.Option(help="Where; anywhere that it is for, if left out.")] = None,
    workload: Annotated[list[str] | None, typer.Option(help="Only this uuid; repeatable. Makes it private.")] = None,
    ranked: Annotated[bool | None, typer.Option("--ranked/--private", help="Whether it counts for the board.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it to its end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Submit a solution; the token is KERNELMILL_TOKEN. Exits 0 if it passed (or was taken in), 3 if it did not."""
    import uuid

    with told(), client_of(server) as client:
        from kernelmill.evaluator.pack import read_solution

        accepted = client.submit(
            read_solution(solution),
            key=uuid.uuid4().hex,
            device_model=device_model,
            workload_uuids=workload,
            ranked=ranked,
        )
        for note in accepted["notes"]:
            typer.echo(f"kernelmill: {note}", err=True)
        if not wait:
            typer.echo(json.dumps(accepted) if as_json else accepted["id"])
            return
        if not as_json:
            typer.echo(f"kernelmill: submission {accepted['id']}", err=True)
        raise typer.Exit(follow(client, accepted["id"], as_json))


def watch(
    submission: Annotated[str, typer.Argument(help="Its id.")],
    server: Server = None,
    as_json: Annotated[bool, typer.Option("--json", help="One event a line.")] = False,
) -> None:
    """Follow a submission to its end. Exits 0 if it passed, 3 if it was judged and did not."""
    with told(), client_of(server) as client:
        raise typer.Exit(follow(client, submission, as_json))


@contextmanager
def client_of(server: str | None) -> Iterator[Client]:
    from kernelmill.leaderboard.client import Client

    address = server or os.environ.get("KERNELMILL_SERVER")
    if not address:
        fail("which service? give --server URL, or set KERNELMILL_SERVER")
    with Client(address, os.environ.get("KERNELMILL_TOKEN")) as client:
        yield client


def follow(client: Client, number: str, as_json: bool) -> int:
    """Tell each event; the exit code."""
    for event in client.follow(number):
        if as_json:
            typer.echo(json.dumps({"event": event.kind, **event.data}))
        elif event.kind != "position" or event.data["position"]:
            typer.echo(line(event), err=event.kind != "verdict")
    end = client.submission(number)
    if as_json:
        typer.echo(json.dumps({"event": "end", **end}))
    if end["state"] != "done":
        return 1
    return 0 if end["outcome"] == "passed" else JUDGED_AND_NOT_PASSED


def line(event: Told) -> str:
    """For a person."""
    data = event.data
    if event.kind == "verdict":
        if data.get("hidden"):
            return f"{data['status']:<20} [hidden]"
        axes = " ".join(f"{name}={size}" for name, size in data["axes"].items())
        ratio = f"{data['ratio']:.2f}x of the baseline" if data.get("ratio") else data.get("reason", "")
        return f"{data['verdict']:<20} [{axes}]  {ratio}"
    if event.kind == "note":
        return str(data["text"])
    if event.kind == "position":
        return f"number {data['position']} in the queue"
    return str(data["state"]) + (f": {data['reason']}" if data.get("reason") else "")
