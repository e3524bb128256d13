"""Mutants of a sampler: tokens that no right sampler would give, or not so often.

Only the last is sure to be seen in one call. The others are told from a right sampler by many tokens together, so that
one workload with enough rows must catch each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from kernelmill.evaluator.compare.sampling import SamplingExpectation
from kernelmill.evaluator.mutants.outputs import stale
from kernelmill.evaluator.mutants.scene import Make, Mutant, Scene, Tensors

FLATTER = "give the probabilities a distribution under which more tokens are likely, or add a workload with more rows"
Pick = Callable[[SamplingExpectation], torch.Tensor]


def first_token(expected: SamplingExpectation) -> torch.Tensor:
    return torch.zeros(len(expected.allowed), dtype=torch.int64)


def likeliest(expected: SamplingExpectation) -> torch.Tensor:
    return expected.probs.argmax(-1)


def uniform(expected: SamplingExpectation) -> torch.Tensor:
    """Any token of the support alike."""
    return torch.multinomial(expected.allowed.double(), 1).flatten()


def of_half(expected: SamplingExpectation) -> torch.Tensor:
    """Rightly drawn, but from every other token alone, where there is one in the support."""
    likely = torch.where(expected.allowed, expected.probs, 0.0)
    read = likely.clone()
    read[:, 1::2] = 0.0
    return torch.multinomial(torch.where(read.sum(-1, keepdim=True) > 0, read, likely), 1).flatten()


def wrong_samplers(samples: str) -> Iterator[Mutant]:
    """`samples`: the output that holds the tokens."""
    picks = {
        "always token 0": first_token,
        "the likeliest token": likeliest,
        "uniform": uniform,
        "of every other token": of_half,
    }
    for name, pick in picks.items():
        yield Mutant(name, _picking(samples, pick), FLATTER, statistical=True)
    yield Mutant(f"stale {samples}", stale(samples), FLATTER, statistical=True)
    yield Mutant("a token outside the support", _outside(samples), "name the inputs top_p and top_k in the comparator")


def _picking(samples: str, pick: Pick) -> Make:
    def make(scene: Scene, number: int) -> Tensors:
        declared = scene.sets[number].declared
        tokens = pick(_expected(scene, number))
        return {**declared, samples: tokens.to(declared[samples].dtype).reshape(declared[samples].shape)}

    return make


def _outside(samples: str) -> Make:
    """The likeliest token beyond the support, in every row that has one."""

    def make(scene: Scene, number: int) -> Tensors:
        declared, expected = scene.sets[number].declared, _expected(scene, number)
        beyond = expected.probs.masked_fill(expected.allowed, -1.0).argmax(-1).reshape(declared[samples].shape)
        every = expected.allowed.all(-1).reshape(declared[samples].shape)
        return {**declared, samples: torch.where(every, declared[samples], beyond.to(declared[samples].dtype))}

    return make


def _expected(scene: Scene, number: int) -> SamplingExpectation:
    expected = scene.sets[number].expectation
    assert isinstance(expected, SamplingExpectation)
    return expected
