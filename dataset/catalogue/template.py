"""Templates: a family of definitions that differ in constants only, written as NAME.toml beside its reference.

`templates/OP_TYPE/KIND.toml` holds what a definition does, with three differences: its name, texts and costs have
`{constants}` in them; a const axis has no value, or an expression over other constants; and `[draws]` and `[scalars]`
say what workloads put into the inputs. `KIND.py` is the reference, and `KIND_WAY.py` a solution for each way that the
TOML has a table `[solutions.WAY]` of; in all of them, a line `NAME = ...` at the top level is a constant too.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kernelmill.trace_schema import Definition, Solution
from kernelmill.trace_schema.constraints import evaluate

TEMPLATES = Path(__file__).parent / "templates"
Constants = Mapping[str, int | float | str]


@dataclass(frozen=True)
class Way:
    """How a template's solution is written. `prefix` and the definition's name make its name."""

    prefix: str
    author: str
    language: str
    dependencies: tuple[str, ...]


WAYS = {
    "torch": Way("torch_baseline", "baseline", "python", ("torch",)),
    "flashinfer": Way("flashinfer", "baseline", "python", ("torch", "flashinfer-python")),
    "triton": Way("triton", "kernelmill", "triton", ("torch", "triton")),
}
"""By the name of the way, in the order in which solutions are shipped."""


@dataclass(frozen=True)
class Template:
    """One family. `facts` is the TOML; `sources` has the text of each solution by its way."""

    kind: str
    facts: Mapping[str, Any]
    reference: str
    sources: Mapping[str, str]

    @property
    def op_type(self) -> str:
        return str(self.facts["op_type"])

    @property
    def phase(self) -> str:
        """What decides the sizes of a call, and so how its workloads are made: see `workloads`."""
        return str(self.facts["phase"])

    @property
    def draws(self) -> Mapping[str, Mapping[str, Any]]:
        """Distribution of each random input, as in a workload."""
        found: Mapping[str, Mapping[str, Any]] = self.facts["draws"]
        return found

    def name(self, constants: Constants) -> str:
        return self._filled(self.facts["name"], constants)

    def scalars(self, constants: Constants) -> dict[str, float]:
        """The numbers that are passed by value."""
        numbers = {name: value for name, value in constants.items() if not isinstance(value, str)}
        wanted: Mapping[str, str] = self.facts.get("scalars", {})
        return {name: evaluate(text, {}, numbers) for name, text in wanted.items()}

    def definition(self, constants: Constants, tags: Iterable[str] = ()) -> Definition:
        """The member of the family with these constants; `tags` come after the template's own."""
        raw: dict[str, Any] = {"name": self.name(constants), "op_type": self.op_type}
        raw["description"] = self._filled(self.facts["description"], constants)
        raw["tags"] = [*self.facts["tags"], *tags]
        raw["axes"] = {name: _axis(name, facts, constants) for name, facts in self.facts["axes"].items()}
        if "constraints" in self.facts:
            raw["constraints"] = self.facts["constraints"]
        for side in ("inputs", "outputs"):
            raw[side] = {name: _tensor(facts) for name, facts in self.facts[side].items()}
        raw["reference"] = with_constants(self.reference, constants)
        if "comparator" in self.facts:
            raw["comparator"] = self.facts["comparator"]
        raw["cost"] = {key: self._filled(text, constants) for key, text in self.facts["cost"].items()}
        return Definition.model_validate(raw)

    def solution(self, constants: Constants, way: str = "torch") -> Solution:
        """The template's solution of that way, for the member with these constants."""
        definition, chosen = self.name(constants), WAYS[way]
        facts = self.facts["solutions"][way]
        spec = {
            "language": chosen.language,
            "target_hardware": facts["target_hardware"],
            "entry_point": "main.py::run",
            "dependencies": list(chosen.dependencies),
        }
        raw = {
            "name": f"{chosen.prefix}_{definition}",
            "definition": definition,
            "author": chosen.author,
            "description": facts["description"],
            "spec": spec,
            "sources": [{"path": "main.py", "content": with_constants(self.sources[way], constants)}],
        }
        return Solution.model_validate(raw)

    def _filled(self, text: str, constants: Constants) -> str:
        return text.format_map({name: shown(value) for name, value in constants.items()})


@cache
def template(kind: str) -> Template:
    """Raises LookupError for a kind without a template."""
    found = list(TEMPLATES.glob(f"*/{kind}.toml"))
    if len(found) != 1:
        raise LookupError(f"{len(found)} templates are called {kind!r} in {TEMPLATES}")
    (file,) = found
    facts = tomllib.loads(file.read_text())
    sources = {way: file.with_name(f"{kind}_{way}.py").read_text() for way in WAYS if way in facts["solutions"]}
    return Template(kind, facts, file.with_suffix(".py").read_text(), sources)


def kinds() -> list[str]:
    """Every kind that has a template."""
    return [file.stem for file in sorted(TEMPLATES.glob("*/*.toml"))]


def shown(value: float | str) -> str:
    """A constant as people write it: 1e-5, not 1e-05."""
    return re.sub(r"e-0(\d)", r"e-\1", repr(value)) if isinstance(value, float) else str(value)


def with_constants(source: str, constants: Constants) -> str:
    """The source with its top-level lines `NAME = ...` set to the constants of those names."""
    for name, value in constants.items():
        source = re.sub(rf"^{name.upper()} = .*$", f"{name.upper()} = {shown(value)}", source, flags=re.MULTILINE)
    return source


def _axis(name: str, facts: Mapping[str, Any], constants: Constants) -> dict[str, Any]:
    if facts["type"] == "var":
        return dict(facts)
    numbers = {key: value for key, value in constants.items() if isinstance(value, int)}
    value = evaluate(facts["value"], numbers) if "value" in facts else constants[name]
    return {**facts, "value": value}


def _tensor(facts: Mapping[str, Any]) -> dict[str, Any]:
    """`shape = "scalar"` is a Python number."""
    return {**facts, "shape": None if facts["shape"] == "scalar" else facts["shape"]}
