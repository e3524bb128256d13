"""The strategies by name, and how each is made for a run."""

from __future__ import annotations

from collections.abc import Mapping

from kernelmill.agents.budget import UsageError
from kernelmill.agents.session import Bench, Makes, Plan
from kernelmill.agents.strategies.base import Strategy
from kernelmill.agents.strategies.template import Template
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


STRATEGIES: Mapping[str, Makes] = {"template": template}
