"""`kernelmill profile` and `kernelmill sanitize`: for authors, and never scored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelmill.evaluator.commands import SandboxKind, fail
from kernelmill.evaluator.tools.findings import Checker

if TYPE_CHECKING:
    from kernelmill.evaluator.tools.profile import Profile
    from kernelmill.evaluator.tools.sanitize import Report
    from kernelmill.evaluator.tools.stage import Stage

FOUND = 2
WIDTH = 140
"""Of the table: a narrower terminal wraps its lines, where cut columns would show nothing."""
Solution = Annotated[str, typer.Argument(help="Its name in the dataset, a Solution file, or a folder of sources.")]
Uuid = Annotated[
    str | None, typer.Option("-w", "--workload", help="Workload uuid; the definition's first one if left out.")
]
Folder = Annotated[
    Path | None,
    typer.Option("--dataset", help="Dataset folder.", show_default="the environment's, else the shipped one"),
]
Gpu = Annotated[str, typer.Option("--device", help="The GPU: cuda:0, cuda:1.")]
Deadline = Annotated[float, typer.Option(min=1, help="Deadline of the tool's whole run, in seconds.")]
Cage = Annotated[SandboxKind, typer.Option(help="none runs foreign code as you: for code that you trust.")]
Lines = Annotated[bool, typer.Option("--json", help="JSON lines on stdout.")]


def profile(
    solution: Solution,
    workload: Uuid = None,
    dataset: Folder = None,
    device: Gpu = "cuda:0",
    timeout_s: Deadline = 600.0,
    sandbox: Cage = "bwrap",
    as_json: Lines = False,
) -> None:
    """Count what a solution's kernels do on the GPU (ncu), and say what limits them. Exits 1 where it cannot."""
    from kernelmill.evaluator.tools import profile as profiling
    from kernelmill.evaluator.tools.stage import require_gpu
    from kernelmill.evaluator.tools.tool import find

    with told():
        require_gpu(device)
        tool = find(profiling.NCU, profiling.PACKAGE)
        with staged(solution, workload, dataset, device, sandbox, timeout_s) as stage:
            made = profiling.profile(stage, tool)
    for line in profile_lines(made) if as_json else []:
        typer.echo(json.dumps(line))
    if not as_json:
        print_profile(made)


def sanitize(
    solution: Solution,
    workload: Uuid = None,
    dataset: Folder = None,
    device: Gpu = "cuda:0",
    tool: Annotated[list[Checker] | None, typer.Option(help="Only this checker; repeatable.")] = None,
    timeout_s: Deadline = 600.0,
    sandbox: Cage = "bwrap",
    as_json: Lines = False,
) -> None:
    """Look for memory errors, races and wrong barriers (compute-sanitizer). Exits 0 if clean, 2 with findings."""
    from kernelmill.evaluator.tools import sanitize as sanitizing
    from kernelmill.evaluator.tools.stage import require_gpu
    from kernelmill.evaluator.tools.tool import find

    reports = []
    with told():
        require_gpu(device)
        program = find(sanitizing.SANITIZER, sanitizing.PACKAGE)
        with staged(solution, workload, dataset, device, sandbox, timeout_s) as stage:
            for checker in tool or Checker:
                typer.echo(f"{checker} …", err=True)
                reports.append(sanitizing.sanitize(stage, program, checker))
                print_report(reports[-1], as_json)
    if any(report.findings for report in reports):
        raise typer.Exit(FOUND)
    raise typer.Exit(1 if any(report.problem for report in reports) else 0)


@contextmanager
def told() -> Iterator[None]:
    """Errors as sentences: 2 for what was named wrongly, 1 for what does not work."""
    from kernelmill.evaluator.builders import BuildError
    from kernelmill.trace_schema.errors import DatasetError, KernelMillError

    try:
        yield
    except DatasetError as error:
        fail(error)
    except BuildError as error:
        typer.echo(error.log, err=True)
        fail(f"the solution does not build: {error}", 1)
    except KernelMillError as error:
        fail(error, 1)


@contextmanager
def staged(
    named: str, uuid: str | None, dataset: Path | None, device: str, sandbox: SandboxKind, timeout_s: float
) -> Iterator[Stage]:
    """The solution and the workload that were named, on that device."""
    from kernelmill.dataset import Dataset
    from kernelmill.evaluator import devices
    from kernelmill.evaluator.case import make_case
    from kernelmill.evaluator.tools import choice, stage

    opened = Dataset.open(dataset)
    typer.echo(f"dataset: {opened.root}", err=True)
    solution = choice.solution_of(opened, named)
    definition = opened.definition(solution.definition)
    workload = choice.workload_of(opened, definition, uuid)
    typer.echo(f"{solution.name} on {definition.name}, workload {workload.uuid} {dict(workload.axes)}", err=True)
    case = make_case(definition, workload, opened)
    gpu = devices.open_device(device)  # refused while a judge has it: a tool must not disturb its clock
    try:
        with stage.set_stage(solution, case, gpu, sandbox=sandbox, timeout_s=timeout_s) as made:
            yield made
    finally:
        gpu.close()


def profile_lines(made: Profile) -> Iterator[dict[str, object]]:
    """One object a kernel, then the verdict."""
    from kernelmill.evaluator.tools.roofline import kernel_bound

    for kernel in made.kernels:
        yield {"type": "kernel", **kernel._asdict(), "bound": kernel_bound(kernel)}
    verdict = made.verdict
    yield {
        "type": "verdict",
        **verdict._asdict(),
        "roofline_share": verdict.roofline_share,
        "text": verdict.text,
    }


def print_profile(made: Profile) -> None:
    from rich.console import Console

    from kernelmill.evaluator.tools.table import kernel_table

    console = Console()
    console.width = max(console.width, WIDTH)
    console.print(kernel_table(made.kernels))
    console.print(made.verdict.text, markup=False, highlight=False)


def print_report(report: Report, as_json: bool) -> None:
    if as_json:
        for finding in report.findings:
            typer.echo(json.dumps({"type": "finding", "checker": report.checker, **finding._asdict()}))
        count = len(report.findings)
        typer.echo(
            json.dumps({"type": "report", "checker": report.checker, "findings": count, "problem": report.problem})
        )
        return
    for finding in report.findings:
        typer.echo(f"{report.checker}: {finding.severity}: {finding.kind}, {finding.times} times")
        typer.echo(f"    in {finding.kernel} at {finding.place}")
        for line in finding.lines[1:]:
            typer.echo(f"    {line}")
    if report.problem:
        typer.echo(f"kernelmill: {report.checker}: {report.problem}", err=True)
    elif not report.findings:
        typer.echo(f"{report.checker}: clean")


def register(app: typer.Typer) -> None:
    for command in (profile, sanitize):
        app.command()(command)
