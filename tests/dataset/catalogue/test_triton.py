"""Every template's Triton solution against its reference, by Triton's interpreter in a process of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from kernelmill.dataset.catalogue.template import template
from tests.dataset.catalogue.independent import support
from tests.dataset.catalogue.small import KINDS, arguments, calls, constants, outputs, reference, run_solution

TRITON = [kind for kind in KINDS if "triton" in template(kind).sources]
ROUNDED = ".to(values.dtype)"
"""The interpreter multiplies matrices of bfloat16 by their bits, so what is multiplied is widened for it."""


def loaded(kind: str, folder: Path) -> Callable[..., Any]:
    """The kernel's `run`: Triton reads a kernel's source from its file."""
    source = template(kind).solution(constants(kind), "triton").files["main.py"].replace(ROUNDED, "")
    source = source.replace("tl.dot(query, keys)", "tl.dot(query.to(tl.float32), keys.to(tl.float32))")
    file = folder / f"{kind}.py"
    file.write_text(source.replace("tl.dot(weights, values,", "tl.dot(weights, values.to(tl.float32),"))
    spec = importlib.util.spec_from_file_location(kind, file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    run: Callable[..., Any] = module.run
    return run


def check(kind: str, run: Callable[..., Any]) -> None:
    for state in calls(kind)[:2]:
        given = arguments(kind, state)
        if kind.endswith("_sampling_from_probs"):
            given = [one[:2] for one in given]  # two rows take the interpreter three seconds
        found = run_solution(kind, given, run)
        if kind.endswith("_sampling_from_probs"):
            check_drawn(kind, given, found[0])
            continue
        expected = list(outputs(reference(kind)(*given)))
        if kind == "moe_softmax_routing":  # equal logits may be told apart either way
            found, expected = by_logit(given[0], found), by_logit(given[0], expected)
        for one, right in zip(found, expected, strict=True):
            tolerance = 2**-6 if right.dtype is torch.bfloat16 else 1e-3
            size = float(right[torch.isfinite(right)].double().square().mean().sqrt())
            torch.testing.assert_close(one.double(), right.double(), rtol=tolerance, atol=tolerance * size)


def by_logit(logits: Tensor, found: list[Tensor]) -> list[Tensor]:
    """Weights and logits of the chosen experts, sorted."""
    weights, ids = found
    return [weights.sort()[0], logits.gather(1, ids.long()).sort()[0]]


def check_drawn(kind: str, given: list[Any], drawn: Tensor) -> None:
    probs, *limits = given
    names = [name for name in ("top_k", "top_p", "min_p") if name in kind]
    for row, token in enumerate(drawn.tolist()):
        bounds = {name: float(limit[row]) for name, limit in zip(names, limits, strict=True)}
        assert token in support(kind.removesuffix("_sampling_from_probs"), probs[row].double().tolist(), bounds)


@pytest.fixture(scope="module")
def complaints() -> dict[str, str]:
    """What is wrong with each kind; nothing as a rule."""
    pytest.importorskip("triton")
    command = [sys.executable, "-m", "tests.dataset.catalogue.test_triton"]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    root = Path(__file__).parents[3]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=500, cwd=root, env=environment)
    assert done.returncode == 0
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", TRITON)
def test_a_triton_solution_agrees_with_the_reference(kind: str, complaints: dict[str, str]) -> None:
    assert complaints[kind] == ""


def main() -> None:
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in TRITON:
            try:
                check(kind, loaded(kind, Path(folder)))
                found[kind] = ""
            except AssertionError as wrong:
                found[kind] = str(wrong) or "a token that must not be drawn"
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
