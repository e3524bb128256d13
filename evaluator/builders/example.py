"""The record around a builder's self-test source."""

from __future__ import annotations

from kernelmill.trace_schema.solution import Binding, BuildSpec, Language, Solution, SourceFile


def example_solution(language: Language, path: str, content: str, binding: Binding | None = None) -> Solution:
    return Solution(
        name=f"self_test_{binding or language}",
        definition="self_test",
        author="kernelmill",
        spec=BuildSpec(language=language, target_hardware=["cpu"], entry_point=f"{path}::run", binding=binding),
        sources=[SourceFile(path=path, content=content)],
    )
