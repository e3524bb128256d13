"""The catalogue: every definition that the models call for, each once, and who calls for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from kernelmill.dataset.catalogue.kernel import Kernel
from kernelmill.dataset.catalogue.model import models
from kernelmill.dataset.catalogue.modules import modules
from kernelmill.dataset.catalogue.template import Template
from kernelmill.trace_schema import Definition
from kernelmill.trace_schema.errors import DatasetError


@dataclass(frozen=True)
class Use:
    """A model on so many ranks, one of whose modules makes the call."""

    model: str
    ranks: int
    module: str
    role: str
    layers: int | None
    """How many layers make it in a step; None where the model's source doesn't say."""


@dataclass(frozen=True)
class Entry:
    """One definition."""

    definition: Definition
    kernel: Kernel
    uses: tuple[Use, ...]

    @property
    def template(self) -> Template:
        return self.kernel.template

    @property
    def index_tensors(self) -> tuple[str, ...]:
        """Inputs that a workload stores: page ids, offsets, lengths, positions, slots and token ids."""
        drawn = self.template.draws
        return tuple(name for name, spec in self.definition.inputs.items() if spec.shape and name not in drawn)


@cache
def entries() -> dict[str, Entry]:
    """Every definition by name, in order of op type and name. Raises DatasetError where one name has two contents."""
    kernels: dict[str, Kernel] = {}
    uses: dict[str, list[Use]] = {}
    ids: dict[str, list[str]] = {}
    for one in models():
        for ranks in one.tensor_parallel:
            for module in modules(one, ranks):
                for kernel in module.kernels:
                    name = kernel.definition
                    if _differs(kernels.setdefault(name, kernel), kernel):
                        raise DatasetError(f"two kernels are called {name}: {kernels[name]} and {kernel}")
                    uses.setdefault(name, []).append(Use(one.id, ranks, module.name, kernel.role, module.layers))
                    ids.setdefault(name, []).extend(one.ids)
    made = [_entry(kernels[name], tuple(uses[name]), ids[name]) for name in kernels]
    made.sort(key=lambda entry: (entry.definition.op_type, entry.definition.name))
    return {entry.definition.name: entry for entry in made}


def _differs(one: Kernel, other: Kernel) -> bool:
    return one.template.definition(one.constants).hash() != other.template.definition(other.constants).hash()


def _entry(kernel: Kernel, uses: tuple[Use, ...], ids: list[str]) -> Entry:
    tags = [f"model:{one}" for one in dict.fromkeys(ids)]
    if kernel.template.facts["sharded"]:
        split = kernel.constants.get("num_local_experts") != kernel.constants.get("num_experts")
        tags += [f"{'ep' if split else 'tp'}:{ranks}" for ranks in sorted({use.ranks for use in uses})]
    return Entry(kernel.template.definition(kernel.constants, tags), kernel, uses)
