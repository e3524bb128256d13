"""`kernelmill agent`: run, replay, submit, tools, space."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelmill.evaluator.commands import SandboxKind, fail

if TYPE_CHECKING:
    from kernelmill.agents.loop import Result

NOTHING_BETTER = 4
BUDGET_SPENT = 5
agent_app = typer.Typer(help="Agents write kernels, and the judge judges them.", no_args_is_help=True)
Folder = Annotated[
    Path | None,
    typer.Option("--dataset", help="Dataset folder.", show_default="the environment's, else the shipped one"),
]
Lines = Annotated[bool, typer.Option("--json", help="The result as one JSON object on stdout.")]


def register(app: typer.Typer) -> None:
    app.add_typer(agent_app, name="agent")


@agent_app.command("run")
def run(
    definition: Annotated[str, typer.Argument(help="What to write a kernel for.")],
    strategy: Annotated[str, typer.Option(help="How to search; `template` needs no model.")] = "template",
    budget: Annotated[
        list[str] | None,
        typer.Option(help="NAME=AMOUNT: evaluations, device_s, model_calls, tokens, money, wall; repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same sequence.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda:0.")] = "auto",
    exclude: Annotated[list[str] | None, typer.Option(help="A template's point not to try; repeatable.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Run directory; one that exists is taken up again.", show_default="in the cache folder"),
    ] = None,
    model: Annotated[str, typer.Option(help="openai:NAME or anthropic:NAME; keys come from the environment.")] = "",
    base_url: Annotated[str, typer.Option(help="An OpenAI-compatible server, such as http://127.0.0.1:8000/v1.")] = "",
    price: Annotated[str, typer.Option(help="IN,OUT: US dollars for a million tokens.")] = "0,0",
    steps: Annotated[int, typer.Option(min=1, help="Of a strategy with a model; rounds of an external agent.")] = 24,
    tools: Annotated[bool, typer.Option("--tools", help="The model may call tools before it answers.")] = False,
    submit_to: Annotated[str, typer.Option("--submit", help="A service's address: hand in what is better.")] = "",
    command: Annotated[list[str] | None, typer.Argument(help="After --: the external agent's command.")] = None,
    dataset: Folder = None,
    save: Annotated[bool, typer.Option("--save", help="Append full judgements to the dataset.")] = False,
    sandbox: Annotated[SandboxKind, typer.Option(help="none runs foreign code as you.")] = "bwrap",
    as_json: Lines = False,
) -> None:
    """Search for a faster kernel. Exits 0 if one was found, 4 if none was, 5 if a budget ended the search."""
    with told():
        from kernelmill.agents import session
        from kernelmill.agents.budget import Limits
        from kernelmill.dataset import Dataset
        from kernelmill.evaluator.devices import device_names

        opened = Dataset.open(dataset)
        typer.echo(f"dataset: {opened.root}", err=True)
        plan = session.Plan(
            definition=opened.definition(definition).name,
            strategy=strategy,
            seed=seed,
            limits=Limits.parse(budget or []),
            device=device_names(device)[0],
            sandbox=sandbox,
            excluded=tuple(exclude or ()),
            model=model,
            base_url=base_url,
            price=price,
            steps=steps,
            tools=tools,
            command=tuple(command or ()),
        )
        folder = out or session.run_folder(plan)
        typer.echo(f"run: {folder}", err=True)
        result = session.start(plan, opened, folder, say, save=save)
        if submit_to and result.improved:
            from kernelmill.agents.submitting import submit as hand_in

            hand_in(folder, submit_to, wait=False)
    raise typer.Exit(ended(result, folder, as_json))


@agent_app.command("submit")
def submit(
    folder: Annotated[Path, typer.Argument(help="A finished run.")],
    server: Annotated[str, typer.Option(help="The service's address.", envvar="KERNELMILL_SERVER")],
    wait: Annotated[bool, typer.Option("--wait", help="Follow it to its verdict.")] = False,
) -> None:
    """Submit a run's best kernel; the token is KERNELMILL_TOKEN, and its owner the author. Exits as `submit` does."""
    with told():
        from kernelmill.agents.submitting import submit as hand_in

        code = hand_in(folder, server, wait=wait)
    raise typer.Exit(code)


@agent_app.command("tools")
def tools(
    definition: Annotated[str, typer.Argument(help="What a kernel is wanted for.")],
    budget: Annotated[list[str] | None, typer.Option(help="As in `run`.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda:0.")] = "auto",
    out: Annotated[Path | None, typer.Option(help="Run directory.", show_default="in the cache folder")] = None,
    dataset: Folder = None,
    sandbox: Annotated[SandboxKind, typer.Option(help="none runs foreign code as you.")] = "bwrap",
) -> None:
    """Serve the tools for a definition to an agent that speaks MCP, on stdin and stdout."""
    with told():
        from kernelmill.agents import session
        from kernelmill.agents.budget import Limits
        from kernelmill.dataset import Dataset
        from kernelmill.evaluator.devices import device_names

        opened = Dataset.open(dataset)
        limits, where = Limits.parse(budget or []), device_names(device)[0]
        plan = session.Plan(definition, strategy="tools", limits=limits, device=where, sandbox=sandbox)
        folder = out or session.run_folder(plan)
        typer.echo(f"run: {folder}", err=True)
        session.serve_tools(plan, opened, folder)


@agent_app.command("replay")
def replay(
    folder: Annotated[Path, typer.Argument(help="A run directory.")],
    html: Annotated[Path | None, typer.Option(help="Write the report there.")] = None,
    dataset: Folder = None,
    as_json: Lines = False,
) -> None:
    """Go through a recorded run again, asking neither judge nor model; exits as the run did."""
    with told():
        from kernelmill.agents import session
        from kernelmill.dataset import Dataset

        result, report = session.replay(folder, Dataset.open(dataset), say)
        if html:
            html.write_text(report, encoding="utf-8")
    raise typer.Exit(ended(result, folder, as_json))


@agent_app.command("space")
def space(
    definition: Annotated[str, typer.Argument(help="What templates are asked for.")],
    kind: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    dataset: Folder = None,
) -> None:
    """List every legal point of the templates for a definition: one JSON object a line."""
    with told():
        from kernelmill.agents.templates.families import LANGUAGES, spaces
        from kernelmill.dataset import Dataset

        if kind not in LANGUAGES:
            fail(f"--kind is {' or '.join(LANGUAGES)}, not {kind!r}")
        for each in spaces(Dataset.open(dataset).definition(definition), kind):
            for params in each.points():
                typer.echo(json.dumps({"id": each.identity(params), "language": each.language.value, **params}))


@contextmanager
def told() -> Iterator[None]:
    """Errors as sentences: 2 for what was asked for wrongly, 1 for what does not work."""
    from kernelmill.agents.budget import UsageError
    from kernelmill.trace_schema.errors import DatasetError, KernelMillError

    try:
        yield
    except (DatasetError, UsageError) as error:
        fail(error)
    except KernelMillError as error:
        fail(error, 1)


def say(text: str) -> None:
    typer.echo(text, err=True)


def ended(result: Result, folder: Path, as_json: bool) -> int:
    """Tell how a run ended; the exit code."""
    from kernelmill.agents.loop import summary

    if as_json:
        typer.echo(json.dumps({**summary(result), "run": str(folder)}))
    elif result.best is None:
        typer.echo("nothing passed on every workload")
    else:
        best = result.best.outcome
        typer.echo(
            f"{result.best.proposal.solution.name}: {best.speedup:.3f}x ({best.lo:.3f}-{best.hi:.3f}) of the baseline, "
            f"PASSED on {best.judged} of {best.expected} workloads"
        )
    if result.exhausted:
        return BUDGET_SPENT
    return 0 if result.improved else NOTHING_BETTER
