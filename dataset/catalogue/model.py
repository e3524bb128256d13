"""Models: what their public configuration says of their architecture, one small file each in `models/`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

MODELS = Path(__file__).parent / "models"


@dataclass(frozen=True)
class Block:
    """One kind of attention or MLP that layers of a model have. `kind` decides which facts there are.

    Attention: gqa, mla, gdn, mamba2; MLP: dense, moe; `other` is one for which no definition is written yet, with a
    `title` that says what it is.
    """

    kind: str
    layers: int | None
    """How many layers have it; None where the source doesn't say."""
    facts: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.facts[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.facts.get(name, default)


@dataclass(frozen=True)
class Model:
    """An architecture. Sizes are of the whole model, before any split over ranks."""

    id: str
    name: str
    source: str
    """Where the numbers are from."""
    aliases: tuple[str, ...]
    """Ids of models with the same architecture."""
    notes: str
    tensor_parallel: tuple[int, ...]
    """Numbers of ranks for which the dataset has definitions."""
    hidden_size: int
    layers: int
    vocab_size: int
    epsilon: float
    max_length: int | None
    """Longest sequence in tokens; None where the source doesn't say."""
    common: bool
    """Whether it is served so widely that every form of its kernels is in the dataset: all page sizes and samplers."""
    norm: str
    """rms, or gemma, whose factor is 1 + weight."""
    gemm: str
    """Type of the projections: bf16 or fp8_block_scale."""
    router: tuple[int, int] | None
    """Experts and experts a token, where the router has a definition and the experts don't."""
    final_soft_cap: float
    """Soft cap of the output logits; 0 for none."""
    attention: tuple[Block, ...]
    mlp: tuple[Block, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return (self.id, *self.aliases)


@cache
def models() -> tuple[Model, ...]:
    """Every model of the catalogue, by id."""
    return tuple(_read(file) for file in sorted(MODELS.glob("*.toml")))


def model(id: str) -> Model:
    """The model of that id or alias. Raises LookupError where there is none."""
    for one in models():
        if id in one.ids:
            return one
    raise LookupError(f"no model {id!r}; known: {', '.join(name for one in models() for name in one.ids)}")


def _read(file: Path) -> Model:
    facts = tomllib.loads(file.read_text())
    router = facts.get("router")
    return Model(
        id=file.stem,
        name=facts["name"],
        source=facts["source"],
        aliases=tuple(facts.get("aliases", ())),
        notes=facts.get("notes", ""),
        tensor_parallel=tuple(facts["tensor_parallel"]),
        hidden_size=facts["hidden_size"],
        layers=facts["layers"],
        vocab_size=facts["vocab_size"],
        epsilon=facts["epsilon"],
        max_length=facts.get("max_length"),
        common=facts.get("common", False),
        norm=facts.get("norm", "rms"),
        gemm=facts.get("gemm", "bf16"),
        router=(router[0], router[1]) if router else None,
        final_soft_cap=facts.get("final_soft_cap", 0.0),
        attention=tuple(_block(one) for one in facts["attention"]),
        mlp=tuple(_block(one) for one in facts["mlp"]),
    )


def _block(facts: dict[str, Any]) -> Block:
    rest = {name: value for name, value in facts.items() if name not in ("kind", "layers")}
    return Block(facts["kind"], facts.get("layers"), rest)
