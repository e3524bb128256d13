"""A module fits on a few screens and a function on one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    "kernelmill",
    "trace_schema",
    "dataset",
    "evaluator",
    "leaderboard",
    "apply",
    "agents",
    "web",
    "tests",
    "benchmarks",
)
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
P90_FUNCTION_LINES = 25
MAX_BROAD_EXCEPTS = 6
SKIPPED = {"cases", "gpu_cases", "data", "kernels", "versions"}


def sources(*folders: str) -> list[Path]:
    found = []
    for folder in folders or FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            inner = path.relative_to(ROOT)
            if path.resolve() == path and not SKIPPED & set(inner.parts):
                found.append(path)
    return found


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_FILE_LINES, f"{path} is longer than {MAX_FILE_LINES} lines"
    for name, lines in functions(path):
        assert lines <= MAX_FUNCTION_LINES, f"{path}: {name} has {lines} lines, more than {MAX_FUNCTION_LINES}"


def test_nine_functions_in_ten_are_at_most_a_screen() -> None:
    lengths = sorted(lines for path in sources(*FOLDERS[:8]) for _, lines in functions(path))
    assert lengths[int(0.9 * len(lengths))] <= P90_FUNCTION_LINES


def test_broad_excepts_stand_at_process_boundaries_only() -> None:
    found = []
    for path in sources(*FOLDERS[:8]):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler) and (
                node.type is None or getattr(node.type, "id", "") == "Exception"
            ):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert len(found) <= MAX_BROAD_EXCEPTS, found
