"""The strategies by name, and how each is made for a run."""

from __future__ import annotations

from collections.abc import Mapping

from kernelmill.agents.author import Author
from kernelmill.agents.budget import UsageError
from kernelmill.agents.models.opening import open_model, read_price
from kernelmill.agents.session import Bench, Makes, Plan
from kernelmill.agents.strategies.base import Strategy
from kernelmill.agents.strategies.external import External
from kernelmill.agents.strategies.template import Template
from kernelmill.agents.strategies.writing import WRITING
from kernelmill.agents.templates.families import FAMILIES, spaces
from kernelmill.agents.templates.space import GPU, cpu


def template(plan: Plan, bench: Bench) -> Strategy:
    found = spaces(bench.definition, bench.kind)
    if not found:
        raise UsageError(
            f"no template fits {bench.definition.name} ({bench.definition.op_type}) on {bench.kind}; families are "
            f"{', '.join(FAMILIES)}; a strategy with a model needs none"
        )
    hardware = GPU if bench.kind == "cuda" else cpu(bench.cores)
    return Template(found, bench.workloads, hardware, seed=plan.seed, excluded=plan.excluded)


def external(plan: Plan, bench: Bench) -> Strategy:
    if not plan.command:
        raise UsageError("the external strategy needs the agent's command after --, such as: -- my-agent --once")
    return External(plan.command, bench.definition, bench.kind, bench.journal, steps=plan.steps)


def writing(plan: Plan, bench: Bench) -> Strategy:
    if bench.model is None and not plan.model:
        raise UsageError(f"{plan.strategy} needs a model: --model openai:NAME or anthropic:NAME; `template` needs none")
    author = Author(
        bench.model or open_model(plan.model, plan.base_url),
        bench.definition,
        bench.kind,
        bench.journal,
        price=read_price(plan.price),
        seed=plan.seed,
        tools=bench.tools if plan.tools else None,
    )
    if plan.limits.money is not None and not author.price.at_most(1):
        raise UsageError("a money budget needs the model's price: --price IN,OUT in US dollars for a million tokens")
    return WRITING[plan.strategy](author, steps=plan.steps, seed=plan.seed)


STRATEGIES: Mapping[str, Makes] = {
    "template": template,
    **dict.fromkeys(WRITING, writing),
    "external": external,
}
