"""All families, and which of them fit a definition."""

from __future__ import annotations

from kernelmill.agents.templates import decode, gated, gemm, log_softmax, rope, row_norm, sampling
from kernelmill.agents.templates.space import Space
from kernelmill.trace_schema import Definition, Language

FAMILIES = {
    "row_norm": row_norm.space,
    "gated": gated.space,
    "log_softmax": log_softmax.space,
    "rope": rope.space,
    "gemm": gemm.space,
    "decode": decode.space,
    "sampling": sampling.space,
}
LANGUAGES = {"cpu": (Language.CPP,), "cuda": (Language.TRITON, Language.CUDA)}


def spaces(definition: Definition, kind: str) -> list[Space]:
    """Every space for this definition on a kind of device, "cpu" or "cuda"; one that its sizes leave empty is none."""
    found = (family(definition, language) for family in FAMILIES.values() for language in LANGUAGES[kind])
    return [space for space in found if space is not None and any(True for _ in space.points())]
