"""A norm's epsilon is read from its reference, and never guessed."""

from __future__ import annotations

from kernelmill.dataset.catalogue import entries
from kernelmill.dataset.norms import epsilon_of
from tests import builders


def test_every_shipped_norm_tells_its_epsilon() -> None:
    norms = [one for one in entries().values() if one.definition.op_type == "rmsnorm"]
    assert {one.definition.name: epsilon_of(one.definition) for one in norms} == {
        one.definition.name: one.kernel.constants["epsilon"] for one in norms
    }


def test_an_epsilon_that_is_not_named_is_not_guessed() -> None:
    assert epsilon_of(builders.definition()) is None
    two = "def run(hidden_states, weight):\n    eps = 1e-5\n    epsilon = 1e-6\n    return hidden_states\n"
    assert epsilon_of(builders.definition(reference=two)) is None
