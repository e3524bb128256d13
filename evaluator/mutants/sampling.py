"""Mutants of a sampler: tokens that no right sampler would give, or not so often.

Only the last is sure to be seen in one call. The others are told from a right sampler by many tokens together, so a
workload with few rows, judged a few times, says nothing about them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from kernelmill.evaluator.compare.sampling import SamplingExpectation
from kernelmill.evaluator.mutants.outputs import stale
from kernelmill.evaluator.mutants.scene import Make, Mutant, Scene, Tensors

ENOUGH_TOKENS = 32
"""Fewer can't tell a wrong distribution from an unlucky draw at the comparator's false-reject rate."""
FLATTER = "give the probabilities a distribution under which more tokens are likely"
Pick = Callable[[SamplingExpectation], torch.Tensor]


def first_token(expected: SamplingExpectation) -> torch.Tensor:
    return torch.zeros(len(expected.allowed), dtype=torch.int64)


def likeliest(expected: SamplingExpectation) -> torch.Tensor:
    return expected.probs.argmax(-1)


def uniform(expected: SamplingExpectation) -> torch.Tensor:
    """Any token of the support alike."""
    return torch.multinomial(expected.allowed.double(), 1).flatten()


def likeliest_outside(expected: SamplingExpectation) -> torch.Tensor:
    return expected.probs.masked_fill(expected.allowed, -1.0).argmax(-1)


def wrong_samplers(samples: str, calls: int) -> Iterator[Mutant]:
    """`calls`: how many times the judge looks at each row."""
    for name, pick in (("always token 0", first_token), ("the likeliest token", likeliest), ("uniform", uniform)):
        yield Mutant(name, _many(samples, calls, _picking(samples, pick)), FLATTER)
    yield Mutant(f"stale {samples}", _many(samples, calls, stale(samples)), FLATTER)
    yield Mutant("a token outside the support", _outside(samples), "name the inputs top_p and top_k in the comparator")


def _picking(samples: str, pick: Pick) -> Make:
    def make(scene: Scene, number: int) -> Tensors:
        expected, declared = scene.sets[number].expectation, scene.sets[number].declared
        assert isinstance(expected, SamplingExpectation)
        tokens = pick(expected)
        return {**declared, samples: tokens.to(declared[samples].dtype).reshape(declared[samples].shape)}

    return make


def _many(samples: str, calls: int, inner: Make) -> Make:
    def make(scene: Scene, number: int) -> Tensors | None:
        enough = scene.sets[number].declared[samples].numel() * calls >= ENOUGH_TOKENS
        return inner(scene, number) if enough else None

    return make


def _outside(samples: str) -> Make:
    inner = _picking(samples, likeliest_outside)

    def make(scene: Scene, number: int) -> Tensors | None:
        expected = scene.sets[number].expectation
        assert isinstance(expected, SamplingExpectation)
        return None if bool(expected.allowed.all(-1).any()) else inner(scene, number)

    return make
