"""`kernelmill apply …`: the substitution table from a shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

app = typer.Typer(help="Put winning kernels in place of an engine's own.", no_args_is_help=True)

Home = Annotated[
    Path | None,
    typer.Option(help="Folder of the table.", show_default="KERNELMILL_APPLY_HOME, else ~/.config/kernelmill/apply"),
]
Key = Annotated[
    Path | None, typer.Option(help="The operator's private key.", show_default="operator.key in the folder")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


def fail(message: object, code: int = 2) -> NoReturn:
    typer.echo(f"kernelmill: {message}", err=True)
    raise typer.Exit(code)


def settings_of(home: Path | None) -> Any:
    import os

    from kernelmill.apply.settings import Settings

    return Settings.read({**os.environ, **({"KERNELMILL_APPLY_HOME": str(home)} if home else {})})


@app.command()
def build(
    dataset: Annotated[Path | None, typer.Argument(help="Dataset folder with traces.")] = None,
    server: Annotated[str | None, typer.Option(help="Ask this service's board instead.")] = None,
    home: Home = None,
    definition: Annotated[list[str] | None, typer.Option("-d", "--definition", help="Only this; repeatable.")] = None,
    device: Annotated[str, typer.Option(help="What kernels are to serve on: auto, cpu, cuda:0.")] = "auto",
    engine: Annotated[str, typer.Option(help="Compare with solutions of this author, as vllm, where judged.")] = "",
    margin: Annotated[float, typer.Option(min=1.0, help="Least lower bound of a speedup.")] = 1.0,
    libs: Annotated[Literal["same", "any"], typer.Option(help="Count traces of these library versions only.")] = "same",
    as_json: Json = False,
) -> None:
    """Choose, from traces, what could serve on this machine. Nothing runs by it: see approve and verify."""
    import os

    from kernelmill.apply import build as building
    from kernelmill.apply.host import this_host
    from kernelmill.apply.server import build_from_server
    from kernelmill.dataset import Dataset
    from kernelmill.trace_schema.errors import KernelMillError

    wish = building.Wish(engine, margin, libs, tuple(definition or ()))
    try:
        host = this_host(device)
        if server:
            made = build_from_server(server, host, wish, token=os.environ.get("KERNELMILL_TOKEN") or None)
        else:
            opened = Dataset.open(dataset)
            typer.echo(f"dataset: {opened.root}", err=True)
            made = building.build(opened, host, wish)
        folder = settings_of(home).home
        made.write(folder)
    except KernelMillError as error:
        fail(error)
    typer.echo(f"{len(made.table.entries)} definitions, {len(made.solutions)} solutions: {folder}", err=True)
    _explain(home, None, None, None, as_json)


@app.command()
def keygen(home: Home = None) -> None:
    """Make the operator's key pair: the private one signs approvals, the public one is what serving hosts trust."""
    from kernelmill.apply.approval.keys import make_keys
    from kernelmill.apply.errors import ApplyError

    try:
        for path in make_keys(settings_of(home).home):
            typer.echo(str(path))
    except ApplyError as error:
        fail(error)


@app.command()
def approve(
    solution: Annotated[list[str], typer.Argument(help="How the hash of a solution begins, six digits at least.")],
    home: Home = None,
    key: Key = None,
    reviewed: Annotated[bool, typer.Option("--reviewed", help="You have read the source: needed for python.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Take approvals back.")] = False,
) -> None:
    """Build solutions from source in the sandbox, look at what came out, and sign for it."""
    from kernelmill.apply.approval import approve as approving
    from kernelmill.trace_schema.errors import KernelMillError

    folder = settings_of(home).home
    try:
        for prefix in solution:
            if revoke:
                for name in approving.revoke(folder, prefix, key=key):
                    typer.echo(f"revoked {name}")
            else:
                one = approving.approve(folder, prefix, key=key, reviewed=reviewed)
                typer.echo(f"approved {one.solution} {one.solution_hash}")
    except KernelMillError as error:
        fail(error, 1)


@app.command()
def verify(
    home: Home = None,
    definition: Annotated[list[str] | None, typer.Option("-d", "--definition", help="Only this; repeatable.")] = None,
    device: Annotated[str, typer.Option(help="As in build.")] = "auto",
    as_json: Json = False,
) -> None:
    """Judge approved kernels on this machine between the measured sizes. Exits 1 where one failed."""
    from kernelmill.apply import verify as verifying
    from kernelmill.apply.approval.approve import find_solution
    from kernelmill.apply.host import this_host
    from kernelmill.apply.installed import Installed
    from kernelmill.apply.table import Verified
    from kernelmill.trace_schema.errors import KernelMillError

    outcomes, failed = [], False
    try:
        settings = settings_of(home)
        installed, host = Installed.read(settings), this_host(device)
        for chosen in installed.choices(host.model):
            name = chosen.definition.name
            if definition and name not in definition:
                continue
            entry = next(one for one in installed.table.entries if one.definition == name)
            solutions = {one.solution_hash: find_solution(settings.home, one.solution_hash) for one in chosen.approvals}
            for outcome in verifying.verify(entry, chosen.definition, solutions, installed.manifest, host):
                outcomes.append(outcome)
                failed |= not isinstance(outcome, Verified)
                typer.echo(outcome.model_dump_json() if as_json else verifying.told(name, outcome))
    except KernelMillError as error:
        fail(error)
    verifying.record(settings.home, outcomes)
    raise typer.Exit(1 if failed else 0)


@app.command()
def explain(
    definition: Annotated[str | None, typer.Argument(help="Only this definition.")] = None,
    axes: Annotated[list[str] | None, typer.Option("--axis", help="With sizes, as batch_size=7: one call.")] = None,
    run: Annotated[Path | None, typer.Option(help="A folder of metrics: what an engine's run has substituted.")] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Say what is substituted on this machine, where, and why not."""
    _explain(home, definition, axes, run, as_json)


def _explain(
    home: Path | None, definition: str | None, axes: list[str] | None, run: Path | None, as_json: bool
) -> None:
    from kernelmill.apply import explain as explaining
    from kernelmill.apply.host import device_of
    from kernelmill.apply.installed import Installed
    from kernelmill.trace_schema.errors import KernelMillError

    try:
        if run is not None:
            lines = list(explaining.explain_run(run))
        else:
            installed, (_, model) = Installed.read(settings_of(home)), device_of()
            if definition and axes:
                sizes = {name: int(size) for name, _, size in (axis.partition("=") for axis in axes)}
                lines = [explaining.explain_call(installed, model, definition, sizes)]
            else:
                lines = list(explaining.explain(installed, model, definition))
    except (KernelMillError, ValueError, KeyError) as error:
        fail(error)
    for line in lines:
        typer.echo(json.dumps(line) if as_json else "  ".join(str(value) for value in line.values()))


@app.command(name="exec", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def execute(
    context: typer.Context,
    home: Home = None,
    shadow: Annotated[float | None, typer.Option(min=0, max=1, help="Share of calls that run both kernels.")] = None,
    metrics: Annotated[Path | None, typer.Option(help="Folder for counters.")] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="Collect workloads into this dataset; kernels only where KERNELMILL_ENABLE_APPLY is set."),
    ] = None,
) -> None:
    """Run a program with apply armed: `kernelmill apply exec -- python serve.py`. The program is not changed."""
    import os

    from kernelmill.apply.arming.exec import environment

    if not context.args:
        fail("name a program after --, as in: kernelmill apply exec -- python serve.py")
    given = {"HOME": home and home.absolute(), "SHADOW": shadow, "METRICS": metrics and metrics.absolute()}
    over = {f"KERNELMILL_APPLY_{name}": str(value) for name, value in given.items() if value is not None}
    try:
        env = environment({**os.environ, **over}, trace=str(trace.absolute()) if trace else None)
        os.execvpe(context.args[0], context.args, env)
    except OSError as error:
        fail(f"{context.args[0]}: {error.strerror}")


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="apply")
