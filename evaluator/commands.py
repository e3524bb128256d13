"""The evaluator's commands: run, pack, unpack, doctor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

if TYPE_CHECKING:
    from kernelmill.evaluator.plan import Job
    from kernelmill.evaluator.runner import Event, Runner


SandboxKind = Literal["bwrap", "none"]


ExecutorKind = Literal["local", "ray"]


def fail(message: object, code: int = 2) -> NoReturn:
    typer.echo(f"kernelmill: {message}", err=True)
    raise typer.Exit(code)


def run(
    dataset: Annotated[
        Path | None, typer.Argument(help="Dataset folder.", show_default="the environment's, else the shipped one")
    ] = None,
    definition: Annotated[
        list[str] | None, typer.Option("-d", "--definition", help="Only this definition; repeatable.")
    ] = None,
    solution: Annotated[
        list[str] | None, typer.Option("-s", "--solution", help="Only this solution; repeatable.")
    ] = None,
    op_type: Annotated[list[str] | None, typer.Option(help="Only definitions of this op type; repeatable.")] = None,
    author: Annotated[list[str] | None, typer.Option(help="Only solutions of this author; repeatable.")] = None,
    device: Annotated[str, typer.Option(help="auto or cpu.")] = "auto",
    executor: Annotated[ExecutorKind, typer.Option(help="Where to run.")] = "local",
    timeout_s: Annotated[float, typer.Option(min=0.1, help="Deadline of one call, in seconds.")] = 60.0,
    sandbox: Annotated[
        SandboxKind, typer.Option(help="none runs foreign code as you: for code that you trust.")
    ] = "bwrap",
    resume: Annotated[bool, typer.Option("--resume", help="Leave out what has a current trace.")] = False,
    no_save: Annotated[bool, typer.Option("--no-save", help="Do not write traces into the dataset.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One Trace a line on stdout.")] = False,
) -> None:
    """Evaluate solutions; each trace is saved as it is made."""
    from kernelmill.evaluator.plan import Selection

    if executor == "ray":
        fail("--executor ray is not part of this version; use --executor local")
    selection = Selection(definition or (), solution or (), op_type or (), author or (), None, resume)
    code = execute(dataset, selection, device, sandbox, timeout_s, save=not no_save, as_json=as_json)
    raise typer.Exit(code)


def execute(
    path: Path | None,
    selection: object,
    device: str,
    sandbox: SandboxKind,
    timeout_s: float,
    *,
    save: bool,
    as_json: bool,
) -> int:
    """The run itself; its exit code."""
    from kernelmill.dataset import Dataset
    from kernelmill.evaluator.devices import open_device
    from kernelmill.evaluator.options import JudgeOptions
    from kernelmill.evaluator.plan import Selection, check_writable, jobs
    from kernelmill.evaluator.run import Forge
    from kernelmill.evaluator.runner import Runner
    from kernelmill.trace_schema.errors import DatasetError, InternalError

    assert isinstance(selection, Selection)
    try:
        judged_on = open_device(device)
        opened = Dataset.open(path)
        typer.echo(f"dataset: {opened.root}", err=True)
        if save:
            check_writable(opened)
        todo = list(jobs(opened, selection, judged_on))
        forge = Forge(JudgeOptions(timeout_s=timeout_s, sandbox=sandbox), judged_on)
    except DatasetError as error:
        fail(error)
    except InternalError as error:
        fail(error, 1)
    runner = Runner(opened, forge, save=save)
    show(runner, todo, as_json)
    broken = [problem for problem in opened.problems() if not problem.file.startswith("traces/")]
    for problem in broken:
        typer.echo(f"kernelmill: not read: {problem}", err=True)
    return 2 if broken else runner.exit_code


def show(runner: Runner, todo: list[Job], as_json: bool) -> None:
    """Progress on stderr, data on stdout."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    total = sum(job.count for job in todo)
    console = Console(stderr=True)
    if not total:
        typer.echo("nothing to evaluate: no solution and workload match, or all have a current trace", err=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("building", total=total)
        for event in runner.run(todo):
            if event.trace is not None:
                progress.update(task, advance=1, description=f"{event.trace.definition} {event.trace.solution}")
            elif event.kind == "building":
                progress.update(task, description=event.text)
            tell(event, as_json)


def tell(event: Event, as_json: bool) -> None:
    if event.trace is not None:
        typer.echo(event.trace.model_dump_json(exclude_unset=True) if as_json else event.text)
    elif event.kind != "building":
        typer.echo(f"kernelmill: {event.kind.replace('_', ' ')}: {event.text}", err=True)


def pack(
    folder: Annotated[Path, typer.Argument(help="Sources, with a solution.json that holds the other fields.")],
) -> None:
    """Print the Solution made of a folder's sources."""
    from kernelmill.evaluator import pack as packing
    from kernelmill.trace_schema.errors import SubmissionError

    try:
        typer.echo(packing.pack(folder).model_dump_json(indent=2, exclude_unset=True))
    except SubmissionError as error:
        fail(error)


def unpack(
    solution: Annotated[Path, typer.Argument(help="A Solution file.")],
    into: Annotated[Path, typer.Option(help="Where the folder is made.")] = Path(),
) -> None:
    """Write a Solution's sources into a folder named after it."""
    from kernelmill.evaluator import pack as packing
    from kernelmill.trace_schema.errors import SubmissionError

    try:
        typer.echo(str(packing.unpack(solution, into)))
    except SubmissionError as error:
        fail(error)


def doctor(as_json: Annotated[bool, typer.Option("--json", help="One check a line.")] = False) -> None:
    """Say what works on this host and what to do about the rest."""
    from kernelmill.evaluator.doctor import examine

    ready = True
    for check in examine():
        ready &= check.status != "fail"
        if as_json:
            typer.echo(json.dumps(check._asdict()))
        else:
            typer.echo(f"{check.status:<5} {check.name:<22} {check.detail}")
            if check.remedy:
                typer.echo(f"{'':<28} -> {check.remedy}")
    raise typer.Exit(0 if ready else 1)


def register(app: typer.Typer) -> None:
    for command in (run, pack, unpack, doctor):
        app.command()(command)
