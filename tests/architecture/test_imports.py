"""Imports point one way, packages import lightly, and no bare top-level name of ours is ever imported."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = {
    "trace_schema": set(),
    "dataset": {"trace_schema"},
    "evaluator": {"trace_schema", "dataset"},
    "apply": {"trace_schema", "dataset", "evaluator"},
    "agents": {"trace_schema", "dataset", "evaluator"},
    "leaderboard": {"trace_schema", "dataset", "evaluator"},
    "web": {"trace_schema", "dataset", "evaluator", "agents", "leaderboard"},
}
HEAVY = ("torch", "numpy", "pandas", "triton", "flashinfer", "vllm", "sglang", "ray", "tvm_ffi")
EVERYONE = {"settings"}
"""Modules of the root package that any folder may import."""


def modules(package: str) -> Iterator[Path]:
    for path in sorted((ROOT / package).rglob("*.py")):
        if "data" not in path.parts and "kernels" not in path.parts:
            yield path


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield node.module or ""


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_lies_below_it(package: str) -> None:
    for path in modules(package):
        for name in imported(path):
            parts = name.split(".")
            assert parts[0] not in ALLOWED, f"{path} imports the bare name {name}; write kernelmill.{name}"
            if parts[0] == "kernelmill" and len(parts) > 1:
                allowed = ALLOWED[package] | {package} | EVERYONE
                assert parts[1] in allowed, f"{path} imports {name}; {package} may import {sorted(allowed)}"


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("package", ALLOWED)
def test_importing_a_package_imports_nothing_heavy(package: str) -> None:
    found = run(f"import sys, kernelmill.{package}; print([m for m in {HEAVY!r} if m in sys.modules])")
    assert found.strip() == "[]"


def test_the_nouns_come_lazily_and_light() -> None:
    found = run(
        "import sys, kernelmill; kernelmill.Dataset, kernelmill.Definition, kernelmill.Trace;"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    assert found.strip() == "[]"


def test_no_bare_name_is_imported_by_the_command_line() -> None:
    names = sorted(ALLOWED)
    assert run(f"import sys, kernelmill.cli; print([m for m in {names!r} if m in sys.modules])").strip() == "[]"


def test_an_unknown_name_says_what_there_is() -> None:
    import kernelmill

    with pytest.raises(AttributeError, match="offers Dataset, Definition, Solution, Trace, Workload"):
        _ = kernelmill.Kernel
