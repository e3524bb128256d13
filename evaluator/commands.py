"""The evaluator's commands: run, pack, unpack, doctor."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, NoReturn

import typer

if TYPE_CHECKING:
    from kernelmill.dataset import Dataset
    from kernelmill.evaluator.devices import Named
    from kernelmill.evaluator.executors import Spread
    from kernelmill.evaluator.options import JudgeOptions
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
    device: Annotated[
        str, typer.Option(help="auto, cpu, cuda:0, several with commas, or all GPUs: all. With ray: what nodes offer.")
    ] = "auto",
    executor: Annotated[ExecutorKind, typer.Option(help="On this host, or on a Ray cluster.")] = "local",
    ray_address: Annotated[
        str | None, typer.Option(help="The Ray cluster.", show_default="RAY_ADDRESS, else the one on this host")
    ] = None,
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

    selection = Selection(definition or (), solution or (), op_type or (), author or (), None, resume)
    where = Where(executor, device, ray_address)
    code = execute(dataset, selection, where, sandbox, timeout_s, save=not no_save, as_json=as_json)
    raise typer.Exit(code)


class Where(NamedTuple):
    """What judges, as it was asked for."""

    executor: ExecutorKind
    device: str
    ray_address: str | None


def execute(
    path: Path | None,
    selection: object,
    where: Where,
    sandbox: SandboxKind,
    timeout_s: float,
    *,
    save: bool,
    as_json: bool,
) -> int:
    """The run itself; its exit code."""
    from kernelmill.dataset import Dataset
    from kernelmill.evaluator.options import JudgeOptions
    from kernelmill.evaluator.plan import Selection, check_writable, jobs
    from kernelmill.trace_schema.errors import DatasetError, InternalError

    assert isinstance(selection, Selection)
    with ExitStack() as stack:
        try:
            opened = Dataset.open(path)
            typer.echo(f"dataset: {opened.root}", err=True)
            if save:
                check_writable(opened)
            runner, seen = judges(opened, where, JudgeOptions(timeout_s=timeout_s, sandbox=sandbox), stack, save=save)
            todo = list(jobs(opened, selection, seen))
        except DatasetError as error:
            fail(error)
        except InternalError as error:
            fail(error, 1)
        show(runner, todo, as_json)
    broken = [problem for problem in opened.problems() if not problem.file.startswith("traces/")]
    for problem in broken:
        typer.echo(f"kernelmill: not read: {problem}", err=True)
    return 2 if broken else runner.exit_code


def judges(
    dataset: Dataset, where: Where, options: JudgeOptions, stack: ExitStack, *, save: bool
) -> tuple[Runner | Spread, Named]:
    """What runs jobs, and the device to plan for: one in this process, or executors, which `stack` closes."""
    from kernelmill.evaluator.devices import device_names, open_device
    from kernelmill.evaluator.executors import Executor, LocalExecutor, RayExecutor, Spread
    from kernelmill.evaluator.run import Forge
    from kernelmill.evaluator.runner import Runner

    names = [] if where.executor == "ray" else device_names(where.device)
    if len(names) == 1:
        device = open_device(names[0])
        return Runner(dataset, Forge(options, device), save=save), device
    executor: Executor
    if where.executor == "ray":
        executor = RayExecutor(where.device, options, address=where.ray_address)
    else:
        executor = LocalExecutor(names, options)
    stack.callback(executor.close)
    return Spread(dataset, executor, save=save), executor.seen


def show(runner: Runner | Spread, todo: list[Job], as_json: bool) -> None:
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
