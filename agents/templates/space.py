"""One family's space for one definition in one language: its parameters, what is legal, and a roofline to rank by."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kernelmill.trace_schema import BuildSpec, Definition, Language, Solution, SourceFile
from kernelmill.trace_schema.errors import InternalError

HERE = Path(__file__).parent
FILES = {Language.CPP: "kernel.cpp", Language.TRITON: "main.py", Language.CUDA: "main.cu"}
TARGETS = {Language.CPP: "cpu", Language.TRITON: "cuda", Language.CUDA: "cuda"}
NEEDS = {Language.CPP: [], Language.TRITON: ["torch", "triton"], Language.CUDA: ["apache-tvm-ffi"]}
AUTHOR = "template-agent"

Value = int | str
Params = Mapping[str, Value]


class Hardware(NamedTuple):
    """Round figures to rank by. Only proportions matter, and measured ones would rank anew on every start."""

    units: int
    """Cores, or multiprocessors."""
    bytes_per_s: float
    flops_per_s: float
    start_s: float
    """Of a launch, or of waking threads."""
    block_bytes: int = 0
    """Fast memory that one block may have."""


GPU = Hardware(units=132, bytes_per_s=4.8e12, flops_per_s=9e14, start_s=2e-6, block_bytes=227 << 10)


def cpu(cores: int) -> Hardware:
    return Hardware(units=cores, bytes_per_s=8e9 * cores, flops_per_s=1e11 * cores, start_s=5e-5)


@dataclass(frozen=True, slots=True)
class Rule:
    """A legality condition; `name` is what an illegal point is refused by."""

    name: str
    holds: Callable[[Params], bool]


@dataclass(frozen=True, slots=True)
class Space:
    """`cost` estimates seconds of one call, to order candidates by."""

    family: str
    definition: Definition
    language: Language
    constants: Mapping[str, object]
    choices: Mapping[str, Sequence[Value]]
    cost: Callable[[Mapping[str, int], Params, Hardware], float]
    rules: Sequence[Rule] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Points, legal or not."""
        size = 1
        for values in self.choices.values():
            size *= len(values)
        return size

    def points(self) -> Iterator[dict[str, Value]]:
        """The legal ones, in the order of the choices."""
        for values in product(*self.choices.values()):
            params = dict(zip(self.choices, values, strict=True))
            if self.refusal(params) is None:
                yield params

    def refusal(self, params: Params) -> str | None:
        """The name of what makes this point illegal, or None."""
        if set(params) != set(self.choices):
            return f"parameters are {', '.join(self.choices)}"
        for name, value in params.items():
            if value not in self.choices[name]:
                return f"{name} is one of {', '.join(map(str, self.choices[name]))}"
        return next((rule.name for rule in self.rules if not rule.holds(params)), None)

    def identity(self, params: Params) -> str:
        """Family, language and a hash of the parameters: the candidate's name in this space."""
        text = json.dumps({name: params[name] for name in self.choices}, sort_keys=True)
        return f"{self.family}-{self.language.value}-{sha256(text.encode()).hexdigest()[:8]}"

    def neighbours(self, params: Params) -> Iterator[dict[str, Value]]:
        """Legal points that differ in one parameter, by one step."""
        for name, values in self.choices.items():
            at = list(values).index(params[name])
            for other in (at - 1, at + 1):
                moved = {**params, name: values[other]} if 0 <= other < len(values) else None
                if moved and self.refusal(moved) is None:
                    yield moved

    def render(self, params: Params) -> Solution:
        """Raises InternalError for an illegal point."""
        if refused := self.refusal(params):
            raise InternalError(f"{self.family} in {self.language}: {dict(params)} is not legal: {refused}")
        file = FILES[self.language]
        template = f"{self.family}.{file.rpartition('.')[2]}.j2"
        text = _environment().get_template(template).render(**self.constants, **params)
        sources = [SourceFile(path=file, content=text)]
        if self.language is Language.CPP:
            sources.append(SourceFile(path="simd.h", content=_header()))
        return Solution(
            name=f"{self.definition.name}-{self.identity(params)}",
            definition=self.definition.name,
            author=AUTHOR,
            spec=BuildSpec(
                language=self.language,
                target_hardware=[TARGETS[self.language]],
                entry_point=f"{file}::run",
                dependencies=NEEDS[self.language],
            ),
            sources=sources,
            description=f"{self.family}: " + ", ".join(f"{name}={value}" for name, value in params.items()),
        )


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(HERE),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


@cache
def _header() -> str:
    return (HERE / "simd.h").read_text(encoding="utf-8")


def roofline(hardware: Hardware, *, bytes_moved: float, flops: float, items: float, starts: float = 1.0) -> float:
    """Seconds at least: memory or arithmetic, slower where fewer items than units are there to work on."""
    busy = min(1.0, items / hardware.units)
    return starts * hardware.start_s + max(bytes_moved / hardware.bytes_per_s, flops / hardware.flops_per_s) / busy
