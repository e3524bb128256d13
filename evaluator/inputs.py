"""Input content: drawn from the operating system's entropy, new at every call, cheap enough to be so.

A small tensor is drawn afresh each time. For a large one a deck a little larger than the tensor is drawn once a
sitting, and a call's content mixes two windows of it, each at a secret row and rotated along the last axis by a
secret distance: a weighted sum where the distribution is made of normal values, else an element from one or the
other. One window alone is not enough: rotated rows of a row-wise operation have rotated answers, which a cheat can
keep. A captured tensor of indices keeps its pattern and is shifted by a secret distance within what it points into,
so that pages are as scattered as they were and yet never the same ones. Static inputs (weights) are drawn once a
sitting, as an engine loads them once.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kernelmill.dataset.checks.indexed import axes_behind
from kernelmill.evaluator.case import Case, Tensor
from kernelmill.evaluator.dtypes import torch_dtype
from kernelmill.trace_schema import Distribution, RandomInput

if TYPE_CHECKING:
    import torch

SMALL_ELEMENTS = 1 << 17
SPARE_ROWS = 64
INTEGER_LOW, INTEGER_HIGH = -1024, 1024
FLOAT8_RANGE = 2.0
SUMMED = ("normal", "lognormal", "softmax")
"""Kinds that are made of normal values."""


class Window(NamedTuple):
    """Rows of a deck, each rotated along the last axis."""

    first: int
    rotation: int


class Blend(NamedTuple):
    """Two windows of the values' deck, a window of the coins' deck, and the angle of a weighted sum."""

    one: Window
    two: Window
    coins: Window
    angle: float


class Deck(NamedTuple):
    """A large tensor's reserve, [rows, row width]."""

    values: torch.Tensor
    coins: torch.Tensor | None
    """One random boolean an element; None where values are mixed by a weighted sum."""


@dataclass(frozen=True, slots=True)
class Content:
    """What one call's dynamic inputs hold: a recipe that fills any memory with the same values."""

    fresh: Mapping[str, torch.Tensor]
    blends: Mapping[str, Blend]
    """How each large tensor is mixed from its deck."""
    shifts: Mapping[str, int]
    """Name of a captured index tensor -> what is added to its indices, modulo their bound."""


def distribution_of(case: Case, tensor: Tensor) -> Distribution:
    """The workload's distribution, else the public default for the dtype (probabilities of a sampler: a softmax)."""
    given = case.workload.inputs.get(tensor.name)
    if isinstance(given, RandomInput) and given.distribution is not None:
        return given.distribution
    if case.definition.op_type == "sampling" and tensor.name == "probs":
        return Distribution(kind="softmax")
    if tensor.dtype == "bool":
        return Distribution(kind="randint", low=0, high=2)
    if tensor.dtype == "int8":
        return Distribution(kind="randint", low=-128, high=128)
    if tensor.dtype.startswith("int"):
        return Distribution(kind="randint", low=INTEGER_LOW, high=INTEGER_HIGH)
    return Distribution(kind="normal")


class Inputs:
    """Draws one workload's inputs for one sitting."""

    def __init__(self, case: Case, static: dict[tuple[str, tuple[int, ...]], torch.Tensor]) -> None:
        """`static` is shared by the workloads of a sitting: weights stay the same from one to the next."""
        import torch

        self.case = case
        self._generator = torch.Generator().manual_seed(secrets.randbits(63))
        self._drawn: dict[str, Distribution] = {}
        self._decks: dict[str, Deck] = {}
        self._indices = {tensor.name: bound for tensor in case.tensors if (bound := index_bound(case, tensor))}
        self.fixed = {name: value for name, value in case.fixed.items() if name not in self._indices}
        for tensor in case.tensors:
            if tensor.role == "static" and tensor.name not in case.fixed:
                key = (tensor.name, tensor.shape)
                if key not in static:
                    static[key] = self._draw(tensor, tensor.shape)
                self.fixed[tensor.name] = static[key]

    @property
    def dynamic(self) -> list[Tensor]:
        return [tensor for tensor in self.case.tensors if tensor.name not in self.fixed]

    def draw(self) -> Content:
        """New content for every dynamic input."""
        fresh, blends = {}, {}
        shifts = {name: secrets.randbelow(bound) for name, bound in self._indices.items()}
        for tensor in self.dynamic:
            if tensor.name in shifts:
                continue
            if _elements(tensor.shape) <= SMALL_ELEMENTS:
                fresh[tensor.name] = self._draw(tensor, tensor.shape)
            else:
                blends[tensor.name] = self._blend(tensor)
        return Content(fresh, blends, shifts)

    def write(self, content: Content, name: str, into: torch.Tensor) -> None:
        """Fill `into` (the tensor's shape and dtype) with what `content` says of input `name`."""
        if name in content.fresh:
            into.copy_(content.fresh[name])
            return
        if name in content.shifts:
            into.copy_(shifted(self.case.fixed[name], content.shifts[name], self._indices[name]))
            return
        rows = into.reshape(-1, into.shape[-1])
        blend, deck = content.blends[name], self._decks[name]
        if deck.coins is None:
            self._sum(rows, deck, blend)
            finish(rows, self._drawn[name])
        else:
            self._choose(rows, deck, blend)

    def _sum(self, rows: torch.Tensor, deck: Deck, blend: Blend) -> None:
        """cos a * one + sin a * two: as normal as both, and equal to neither."""
        import torch

        for part, source in rotated(rows, deck.values, blend.one):
            torch.mul(source, math.cos(blend.angle), out=part)
        for part, source in rotated(rows, deck.values, blend.two):
            part.add_(source, alpha=math.sin(blend.angle))

    def _choose(self, rows: torch.Tensor, deck: Deck, blend: Blend) -> None:
        """Each element from one window or the other, by the toss of a coin."""
        import torch

        assert deck.coins is not None
        other, coins = torch.empty_like(rows), torch.empty(rows.shape, dtype=torch.bool)
        for target, source, window in (
            (rows, deck.values, blend.one),
            (other, deck.values, blend.two),
            (coins, deck.coins, blend.coins),
        ):
            for part, piece in rotated(target, source, window):
                part.copy_(piece)
        bits = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[rows.element_size()]
        mine = rows.view(bits)
        mine.copy_(torch.where(coins, mine, other.view(bits)))

    def copy(self, content: Content) -> dict[str, torch.Tensor]:
        """Every tensor input by name, in private memory."""
        import torch

        copies = dict(self.fixed)
        for tensor in self.dynamic:
            copies[tensor.name] = torch.empty(tensor.shape, dtype=torch_dtype(tensor.dtype))
            self.write(content, tensor.name, copies[tensor.name])
        return copies

    def _blend(self, tensor: Tensor) -> Blend:
        width = tensor.shape[-1]
        rows = _elements(tensor.shape) // width
        spare = max(SPARE_ROWS, rows // 8)
        if tensor.name not in self._decks:
            self._decks[tensor.name] = self._deck(tensor, (rows + spare, width))
        one, two, coins = (Window(secrets.randbelow(spare + 1), secrets.randbelow(width)) for _ in range(3))
        angle = math.pi * (1 + 2 * secrets.randbelow(1 << 20) / (1 << 20)) / 8  # both windows count
        return Blend(one, two, coins, angle)

    def _deck(self, tensor: Tensor, shape: tuple[int, int]) -> Deck:
        import torch

        drawn = distribution_of(self.case, tensor)
        self._drawn[tensor.name] = drawn
        if drawn.kind in SUMMED and not tensor.dtype.startswith("float8"):
            std = drawn.params.get("std", 1.0)
            # Two windows' columns, by cosine and sine, have as much in common as either's.
            plain = Distribution(kind="normal", std=std, column_std=drawn.params.get("column_std"))
            return Deck(sample(plain, tensor.dtype, shape, self._generator), None)
        coins = torch.randint(0, 2, shape, generator=self._generator, dtype=torch.int8).bool()
        return Deck(sample(drawn, tensor.dtype, shape, self._generator), coins)

    def _draw(self, tensor: Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        return sample(distribution_of(self.case, tensor), tensor.dtype, shape, self._generator)


def rotated(into: torch.Tensor, deck: torch.Tensor, window: Window) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Pairs (part of `into`, the deck's values that belong there): the two sides of the rotation."""
    rows = deck[window.first : window.first + into.shape[0]]
    width, rotation = rows.shape[1], window.rotation
    if rotation:
        yield into[:, :rotation], rows[:, width - rotation :]
    yield into[:, rotation:], rows[:, : width - rotation]


def finish(rows: torch.Tensor, drawn: Distribution) -> None:
    """From centred normal values to those of the distribution, in place."""
    if drawn.kind == "softmax":
        rows.copy_((rows.float() / drawn.params["temperature"]).softmax(dim=-1))
    elif drawn.kind == "lognormal":
        rows.add_(drawn.params["mean"]).exp_()
    elif drawn.params["mean"]:
        rows.add_(drawn.params["mean"])


def index_bound(case: Case, tensor: Tensor) -> int:
    """How many things a captured tensor of indices points into; 0 if it is none, or a static one."""
    if tensor.name not in case.fixed or tensor.role == "static" or not tensor.dtype.startswith("int"):
        return 0
    axes = axes_behind(case.axes, tensor.name)
    return math.prod(case.axes[axis] for axis in axes) if axes else 0


def shifted(indices: torch.Tensor, distance: int | torch.Tensor, bound: int) -> torch.Tensor:
    """Indices moved on by `distance`, around the end at `bound`; padding and what lies beyond stay as they are."""
    import torch

    moved = (indices.long() + distance).remainder(bound).to(indices.dtype)
    return torch.where((indices >= 0) & (indices < bound), moved, indices)


def sample(drawn: Distribution, dtype: str, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Random elements of a distribution, as `dtype`, on the generator's device."""
    import torch

    params, target, device = drawn.params, torch_dtype(dtype), generator.device
    if drawn.kind == "randint":
        return torch.randint(int(params["low"]), int(params["high"]), shape, generator=generator, device=device).to(
            target
        )
    if drawn.kind == "constant":
        return torch.full(shape, params["value"], device=device).to(target)
    if drawn.kind == "uniform":
        real = torch.rand(shape, generator=generator, device=device) * (params["high"] - params["low"]) + params["low"]
    else:
        real = torch.randn(shape, generator=generator, device=device)
    if drawn.kind == "softmax":
        real = torch.softmax(real / params["temperature"], dim=-1)
    elif drawn.kind in ("normal", "lognormal"):
        real = real * params["std"] + params["mean"]
        if "column_std" in params:
            real += torch.randn(shape[-1:], generator=generator, device=device) * params["column_std"]
        real = real.exp() if drawn.kind == "lognormal" else real
    if dtype.startswith("float8"):
        real = real.clamp(-FLOAT8_RANGE, FLOAT8_RANGE)
    return real.to(target)


def _elements(shape: tuple[int, ...]) -> int:
    return math.prod(shape)
