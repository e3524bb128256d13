"""Real servers, asked over HTTP: the same answers with our kernels, right or wrong, as without."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.apply.engines.kernels import CAUSES, HEAD_SIZE, INNER, MOST_ROWS, WIDTH
from tests.apply.engines.serving import CALM, FAULTY, LONG, SGLANG, TOKENS, VLLM, Engine, Served, same, serve


class Case(NamedTuple):
    engine: Engine
    kind: str
    flags: tuple[str, ...] = ()


CASES = (
    Case(VLLM, "qwen3", ("--enforce-eager",)),
    Case(VLLM, "llama"),  # compiled
    Case(VLLM, "qwen3_moe", ("--enforce-eager",)),
    Case(SGLANG, "qwen3"),
    Case(SGLANG, "llama"),
)


@pytest.fixture(
    scope="module",
    params=[pytest.param(case, marks=case.engine.marks, id=f"{case.engine.name}-{case.kind}") for case in CASES],
)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Served:
    case: Case = request.param
    home = request.getfixturevalue("home")
    return serve(case.engine, case.kind, home, tmp_path_factory.mktemp(case.kind), *case.flags)


def test_tokens_and_logprobs_are_the_engines_whatever_the_kernels_do(served: Served) -> None:
    """Short prompts, one at whose length kernels raise, give NaN or are wrong, and one that no kernel covers."""
    same(served.answers, served.plain)


def test_the_kernels_served_each_op_while_they_were_right(served: Served) -> None:
    """Of two layers each; the first call of a range is looked at, and the engine's own result is taken then."""
    steps = len(CALM) * (TOKENS - 1) - 1
    assert served.calls("rms_norm", 1, WIDTH) >= steps
    assert served.calls("fused_add_rms_norm", 1, WIDTH) >= 4 * steps
    assert served.calls("gemm", 1, WIDTH) >= 2 * steps
    if served.has_gates:
        assert served.calls("silu_and_mul", 1, 2 * INNER) >= 2 * steps
        assert served.calls("gemm", 1, INNER) >= 2 * steps
        assert served.calls("silu_and_mul", len(CALM[1]), 2 * INNER) == 2
    if served.has_head_norms:
        queries, keys = 4, 2
        assert min(served.calls("rms_norm", heads, HEAD_SIZE) for heads in (queries, keys)) >= 2 * steps
    assert f"rms_norm for [({HEAD_SIZE}, 1e-05), ({WIDTH}, 1e-05)]" in served.log


def test_kernels_that_raise_give_nan_or_are_wrong_are_withdrawn_once_and_said_so(served: Served) -> None:
    expected = {name: cause for name, cause in CAUSES.items() if served.has_gates or name != "silu_and_mul_f32"}
    assert served.causes == expected
    withdrawn = [event for event in served.events if event["event"] == "withdrawn"]
    assert {event["definition"]: event["cause"] for event in withdrawn} == expected
    assert len(withdrawn) == len(expected)


def test_a_right_kernel_stays_and_what_it_does_not_cover_is_the_engines(served: Served) -> None:
    fused = served.told["definitions"]["fused_add_rmsnorm_f32"]
    assert fused["kernels"]["cpp_fused_add_rmsnorm_f32"]["compared"] == 2
    assert fused["uncovered"] >= 4
    assert len(LONG) > MOST_ROWS >= len(FAULTY)
    assert served.calls("fused_add_rms_norm", len(FAULTY), WIDTH) >= 3
    assert served.calls("fused_add_rms_norm (engine's own)", len(LONG), WIDTH) == 4
    assert not served.calls("fused_add_rms_norm", len(LONG), WIDTH)
