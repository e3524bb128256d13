"""Input content: drawn from the operating system's entropy, new at every call, cheap enough to be so.

A small tensor is drawn afresh each time. For a large one a deck a little larger than the tensor is drawn once a
sitting, and a call's content is a window of the deck's rows at a secret offset, each row rotated along its last axis by
a secret distance. Rotation keeps every distribution that treats the last axis's elements alike, row sums included, and
leaves no row that was seen before. A captured tensor of indices keeps its pattern and is shifted by a secret distance
within what it points into, so that pages are as scattered as they were and yet never the same ones. Static inputs
(weights) are drawn once a sitting, as an engine loads them once.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

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


@dataclass(frozen=True, slots=True)
class Content:
    """What one call's dynamic inputs hold: a recipe that fills any memory with the same values."""

    fresh: Mapping[str, torch.Tensor]
    windows: Mapping[str, tuple[int, int]]
    """Name -> (first row, rotation) in that tensor's deck."""
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
        self._decks: dict[str, torch.Tensor] = {}
        self._indices = {tensor.name: bound for tensor in case.tensors if (bound := _index_bound(case, tensor))}
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
        fresh, windows = {}, {}
        shifts = {name: secrets.randbelow(bound) for name, bound in self._indices.items()}
        for tensor in self.dynamic:
            if tensor.name in shifts:
                continue
            if _elements(tensor.shape) <= SMALL_ELEMENTS:
                fresh[tensor.name] = self._draw(tensor, tensor.shape)
            else:
                windows[tensor.name] = self._window(tensor)
        return Content(fresh, windows, shifts)

    def write(self, content: Content, name: str, into: torch.Tensor) -> None:
        """Fill `into` (the tensor's shape and dtype) with what `content` says of input `name`."""
        if name in content.fresh:
            into.copy_(content.fresh[name])
            return
        if name in content.shifts:
            into.copy_(shifted(self.case.fixed[name], content.shifts[name], self._indices[name]))
            return
        first, rotation = content.windows[name]
        rows = into.reshape(-1, into.shape[-1]) if into.dim() else into
        window = self._decks[name][first : first + rows.shape[0]]
        width = rows.shape[1]
        rows[:, :rotation].copy_(window[:, width - rotation :])
        rows[:, rotation:].copy_(window[:, : width - rotation])

    def copy(self, content: Content) -> dict[str, torch.Tensor]:
        """Every tensor input by name, in private memory."""
        import torch

        copies = dict(self.fixed)
        for tensor in self.dynamic:
            copies[tensor.name] = torch.empty(tensor.shape, dtype=torch_dtype(tensor.dtype))
            self.write(content, tensor.name, copies[tensor.name])
        return copies

    def _window(self, tensor: Tensor) -> tuple[int, int]:
        width = tensor.shape[-1]
        rows = _elements(tensor.shape) // width
        spare = max(SPARE_ROWS, rows // 8)
        if tensor.name not in self._decks:
            self._decks[tensor.name] = self._draw(tensor, (rows + spare, width))
        return secrets.randbelow(spare + 1), secrets.randbelow(width)

    def _draw(self, tensor: Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        return sample(distribution_of(self.case, tensor), tensor.dtype, shape, self._generator)


def _index_bound(case: Case, tensor: Tensor) -> int:
    """How many things a captured tensor of indices points into; 0 if it is none, or a static one."""
    if tensor.name not in case.fixed or tensor.role == "static" or not tensor.dtype.startswith("int"):
        return 0
    axes = axes_behind(case.axes, tensor.name)
    return math.prod(case.axes[axis] for axis in axes) if axes else 0


def shifted(indices: torch.Tensor, distance: int, bound: int) -> torch.Tensor:
    """Indices moved on by `distance`, around the end at `bound`; padding and what lies beyond stay as they are."""
    import torch

    moved = (indices.long() + distance).remainder(bound).to(indices.dtype)
    return torch.where((indices >= 0) & (indices < bound), moved, indices)


def sample(drawn: Distribution, dtype: str, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Random elements of a distribution, as `dtype`."""
    import torch

    params, target = drawn.params, torch_dtype(dtype)
    if drawn.kind == "randint":
        return torch.randint(int(params["low"]), int(params["high"]), shape, generator=generator).to(target)
    if drawn.kind == "constant":
        return torch.full(shape, params["value"]).to(target)
    if drawn.kind == "uniform":
        real = torch.rand(shape, generator=generator) * (params["high"] - params["low"]) + params["low"]
    else:
        real = torch.randn(shape, generator=generator)
    if drawn.kind == "softmax":
        real = torch.softmax(real / params["temperature"], dim=-1)
    elif drawn.kind in ("normal", "lognormal"):
        real = real * params["std"] + params["mean"]
        real = real.exp() if drawn.kind == "lognormal" else real
    if dtype.startswith("float8"):
        real = real.clamp(-FLOAT8_RANGE, FLOAT8_RANGE)
    return real.to(target)


def _elements(shape: tuple[int, ...]) -> int:
    return math.prod(shape)
