"""What the slots of bursts hold: new random content for every slot of every burst, and the judge's own copy of it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kernelmill.evaluator.case import Case, Tensor
from kernelmill.evaluator.dtypes import torch_dtype
from kernelmill.evaluator.inputs import distribution_of, index_bound, sample, shifted

if TYPE_CHECKING:
    import torch

CHUNK_ELEMENTS = 1 << 28
"""Drawn at once, so that float32 temporaries stay bounded."""
Content = Mapping[str, "torch.Tensor"]
"""One call's dynamic inputs by name."""
StaticTensors = dict[tuple[str, tuple[int, ...]], "torch.Tensor"]


class Contents:
    """Draws one workload's inputs, `slots` calls at a time. Weights (`static`) are drawn once a sitting."""

    def __init__(self, case: Case, static: StaticTensors, device: str, slots: int) -> None:
        import torch

        self.case = case
        self._generator = torch.Generator(device=device).manual_seed(secrets.randbits(63))
        self._device = device
        self._indices = {tensor.name: bound for tensor in case.tensors if (bound := index_bound(case, tensor))}
        self._captured = {name: value.to(device) for name, value in case.fixed.items()}
        self.fixed = {name: value for name, value in self._captured.items() if name not in self._indices}
        for tensor in case.tensors:
            if tensor.role == "static" and tensor.name not in case.fixed:
                key = (tensor.name, tensor.shape)
                if key not in static:
                    static[key] = self._sample(tensor, tensor.shape)
                self.fixed[tensor.name] = static[key]
        self._slots = slots
        self.batch: dict[str, torch.Tensor] = {}
        """[slots, *shape] by name: the judge's own copy of what the slots hold now."""

    @property
    def dynamic(self) -> list[Tensor]:
        return [tensor for tensor in self.case.tensors if tensor.name not in self.fixed]

    def draw(self, count: int, known: Mapping[int, Content]) -> None:
        """New content for the first `count` slots; slots in `known` hold what it says."""
        import torch

        for tensor in self.dynamic:
            if tensor.name not in self.batch:
                shape = (self._slots, *tensor.shape)
                self.batch[tensor.name] = torch.empty(shape, dtype=torch_dtype(tensor.dtype), device=self._device)
            batch = self.batch[tensor.name]
            self._fill(tensor, batch[:count])
            for slot, content in known.items():
                batch[slot] = content[tensor.name]

    def one(self) -> Content:
        """Content for a single call."""
        import torch

        made = {
            t.name: torch.empty((1, *t.shape), dtype=torch_dtype(t.dtype), device=self._device) for t in self.dynamic
        }
        for tensor in self.dynamic:
            self._fill(tensor, made[tensor.name])
        return {name: values[0] for name, values in made.items()}

    def held(self, slot: int) -> Content:
        """What one slot holds now."""
        return {name: batch[slot].clone() for name, batch in self.batch.items()}

    def write(self, content: Content, name: str, into: torch.Tensor) -> None:
        into.copy_(content[name])

    def copy(self, content: Content) -> dict[str, torch.Tensor]:
        """Every tensor input by name."""
        return {**self.fixed, **content}

    def _fill(self, tensor: Tensor, batch: torch.Tensor) -> None:
        if tensor.name in self._indices:
            self._shift(tensor.name, batch)
            return
        step = max(1, CHUNK_ELEMENTS // max(1, batch[0].numel()))
        for start in range(0, len(batch), step):
            part = batch[start : start + step]
            part.copy_(self._sample(tensor, tuple(part.shape)))

    def _shift(self, name: str, batch: torch.Tensor) -> None:
        import torch

        bound, pattern = self._indices[name], self._captured[name]
        distances = torch.tensor([secrets.randbelow(bound) for _ in batch], device=self._device)
        batch.copy_(shifted(pattern, distances.view(-1, *[1] * pattern.dim()), bound))

    def _sample(self, tensor: Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        return sample(distribution_of(self.case, tensor), tensor.dtype, shape, self._generator)
