"""Puts a run together from what was asked for on the command line, and takes it up again from its directory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import kernelmill
from kernelmill.agents import loop
from kernelmill.agents.budget import Budget, Limits, UsageError
from kernelmill.agents.experience import dumped, record
from kernelmill.agents.journal import Journal, read_config
from kernelmill.agents.redaction import redacted
from kernelmill.agents.strategies.base import History, Strategy
from kernelmill.dataset.paths import default_cache
from kernelmill.evaluator.machine import core_count
from kernelmill.trace_schema import Definition, Workload
from kernelmill.trace_schema.errors import InternalError

if TYPE_CHECKING:
    from kernelmill.agents.models.base import ChatModel
    from kernelmill.agents.tools.box import Toolbox
    from kernelmill.dataset import Dataset

DEFAULT = "template"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run does. All of it is written into its config, so none of it may be secret."""

    definition: str
    strategy: str = DEFAULT
    seed: int = 0
    limits: Limits = field(default_factory=Limits)
    device: str = "cpu"
    sandbox: Literal["bwrap", "none"] = "bwrap"
    excluded: Sequence[str] = ()
    model: str = ""
    """provider:name, such as openai:gpt-x; "" for none."""
    base_url: str = ""
    price: str = "0,0"
    steps: int = 24
    """Of a strategy with a model, and rounds of an external one."""
    tools: bool = False
    """Whether the model may call tools."""
    command: Sequence[str] = ()
    """What the external strategy runs."""

    def config(self, definition: Definition, workloads: Sequence[Workload], kind: str) -> dict[str, Any]:
        together = hashlib.sha256("".join(one.hash() for one in workloads).encode()).hexdigest()
        return {
            **asdict(self),
            "limits": self.limits.model_dump(mode="json"),
            "kind": kind,
            "cores": core_count(),
            "version": kernelmill.__version__,
            "definition_hash": definition.hash(),
            "workloads_hash": together,
        }

    @classmethod
    def read(cls, folder: Path) -> tuple[Plan, dict[str, Any]]:
        """From a run directory. Raises DatasetError."""
        config = read_config(folder)
        fields = {name: config[name] for name in cls.__dataclass_fields__}
        return cls(**{**fields, "limits": Limits.model_validate(config["limits"])}), config


class Makes(Protocol):
    """How a strategy is made for a run."""

    def __call__(self, plan: Plan, bench: Bench) -> Strategy: ...


@dataclass(frozen=True, slots=True)
class Bench:
    """What a strategy may know of what it is to beat, and the journal and budget that its model calls go through."""

    definition: Definition
    workloads: Sequence[Workload]
    kind: str
    cores: int
    journal: Journal
    history: History
    tools: Toolbox | None = None
    model: ChatModel | None = None
    """In place of the plan's: a replay asks none."""


def run_folder(plan: Plan) -> Path:
    """A fresh place for a run that was given no directory."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return default_cache() / "runs" / f"{plan.definition}-{plan.strategy}-{stamp}-{os.getpid()}"


def strategies() -> Mapping[str, Makes]:
    from kernelmill.agents.strategies.choices import STRATEGIES

    return STRATEGIES


def make(plan: Plan, bench: Bench) -> Strategy:
    """Raises UsageError."""
    found = strategies()
    if plan.strategy not in found:
        raise UsageError(f"there is no strategy {plan.strategy!r}; there are {', '.join(found)}")
    return found[plan.strategy](plan, bench)


class Nobody:
    """Judge and model of a replay: everything that they are asked must have been recorded."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def judge(self, solutions: object, fidelity: object, deadline_s: float) -> Any:
        raise InternalError("a replay came to a judgement that was not recorded")

    def compiled(self, solution: object) -> str:
        raise InternalError("a replay came to a compilation that was not recorded")

    def looked_into(self, solution: object, with_tool: object) -> str:
        raise InternalError("a replay came to a tool that was not recorded")

    def complete(self, request: object) -> Any:
        raise InternalError("a replay came to a request that was not recorded")


def start(plan: Plan, dataset: Dataset, folder: Path, tell: Callable[[str], None], *, save: bool) -> loop.Result:
    """Run it, or take it up again. Raises UsageError, DatasetError, InternalError."""
    from kernelmill.agents.judging import LocalJudge
    from kernelmill.agents.tools.box import Toolbox

    definition = dataset.definition(plan.definition)
    journal = Journal(folder)
    with LocalJudge(
        dataset,
        definition,
        device=plan.device,
        sandbox=plan.sandbox,
        save=save,
    ) as judge:
        bench = Bench(
            definition=definition,
            workloads=judge.workloads,
            kind=judge.device.kind,
            cores=core_count(),
            journal=journal,
            history=History(Budget(plan.limits)),
            tools=Toolbox(definition, judge.workloads, judge.device.kind, judge),
        )
        strategy = make(plan, bench)
        journal.configure(plan.config(definition, judge.workloads, judge.device.kind))
        return written(loop.run(strategy, judge, journal, bench.history, tell), journal)


def serve_tools(plan: Plan, dataset: Dataset, folder: Path) -> None:
    """An MCP server on stdin and stdout, until stdin ends. Raises DatasetError, InternalError."""
    from kernelmill.agents.judging import LocalJudge
    from kernelmill.agents.tools.box import Toolbox
    from kernelmill.agents.tools.server import serve

    definition = dataset.definition(plan.definition)
    with LocalJudge(dataset, definition, device=plan.device, sandbox=plan.sandbox) as judge:
        journal, history = Journal(folder), History(Budget(plan.limits))
        journal.configure(plan.config(definition, judge.workloads, judge.device.kind))
        serve(Toolbox(definition, judge.workloads, judge.device.kind, judge), journal, history)


def replay(folder: Path, dataset: Dataset, tell: Callable[[str], None]) -> tuple[loop.Result, str]:
    """The recorded run again, asking neither judge nor model: its result and its report.

    Raises ReplayMismatch where it is another one now.
    """
    from kernelmill.agents.tools.box import Toolbox
    from kernelmill.evaluator.findings import HIDDEN

    plan, config = Plan.read(folder)
    definition = dataset.definition(plan.definition)
    workloads = [one for one in dataset.workloads(definition) if one.split != HIDDEN]
    journal = Journal(folder, strict=True)
    kind, nobody = config["kind"], Nobody(plan.model)
    box = Toolbox(definition, workloads, kind, nobody)
    history = History(Budget(plan.limits))
    bench = Bench(definition, workloads, kind, config["cores"], journal, history, box, nobody)
    result = loop.run(make(plan, bench), nobody, journal, history, tell)
    return result, report(result, journal)


def written(result: loop.Result, journal: Journal) -> loop.Result:
    """Leaves the report and what was learned in the run's directory."""
    journal.write("report.html", report(result, journal))
    journal.write("experience.json", dumped(record(result.attempts)))
    return result


def report(result: loop.Result, journal: Journal) -> str:
    """As in the run's directory: a replay gives the same bytes."""
    from kernelmill.agents.report.page import render

    text: str = redacted(render(read_config(journal.folder), result, journal.recorded))
    return text
