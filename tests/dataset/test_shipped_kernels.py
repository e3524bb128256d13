"""Every solution that has its own source files against the reference, also at sizes that no workload has."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from kernelmill.dataset.catalogue.pack import written
from kernelmill.trace_schema import Solution
from tests.dataset.shipped import NAMES, inputs, outputs_of, reference, shipped_definition

SHIPPED = {one.name: one for one in written() if one.definition in NAMES}
PYTHON = [one for one in SHIPPED.values() if one.spec.language == "python"]
PLAIN = [one for one in PYTHON if "torch.compile" not in one.files["main.py"]]
TRITON = [one for one in SHIPPED.values() if one.spec.language == "triton"]
INTERPRETED = [one for one in TRITON if "tl.dot" not in one.files["main.py"]]
"""Triton's interpreter multiplies matrices of bfloat16 by their bits: of such kernels it says nothing."""
NATIVE = [one for one in SHIPPED.values() if one.spec.language == "cpp"]
ROWS = {"few rows": (0, 1, 2, 5), "enough rows for threads": (70, 131)}
PORTABLE = {"x86_64": ["-march=x86-64-v3"]}
"""Flags that leave out AVX-512, so that the generic paths run; elsewhere the plain build has no other ones."""


def load_python(solution: Solution) -> Callable[..., None]:
    space: dict[str, Any] = {"__name__": solution.name}
    exec(compile(solution.files["main.py"], solution.name, "exec"), space)
    run: Callable[..., None] = space["run"]
    return run


def load_native(solution: Solution, folder: Path, flags: list[str]) -> Callable[..., None]:
    import tvm_ffi

    for path, content in solution.files.items():
        (folder / path).write_text(content)
    package, library = Path(tvm_ffi.__file__).parent, folder / "kernel.so"
    command = ["g++", "-O3", "-fopenmp", "-std=c++17", "-shared", "-fPIC", *flags, f"-isystem{package / 'include'}"]
    command += [str(folder / "kernel.cpp"), "-o", str(library), f"-L{package / 'lib'}", "-ltvm_ffi"]
    subprocess.run(command, check=True, timeout=300)
    run: Callable[..., None] = tvm_ffi.load_module(str(library))[solution.spec.entry_symbol]
    return run


def check(solution: Solution, run: Callable[..., None], rows: int) -> None:
    """Runs on poisoned outputs; the reference's own rounding sets the scale of the tolerance."""
    given = inputs(solution.definition, rows)
    expected = list(outputs_of(reference(solution.definition)(*given)))
    outputs = [torch.full_like(one, 77) for one in expected]
    run(*given, *outputs)
    if shipped_definition(solution.definition).op_type == "sampling":
        assert_in_nucleus(given[0], given[1], outputs[0])
        return
    if "routing" in solution.definition:
        outputs, expected = by_expert(given[0], outputs), by_expert(given[0], expected)
    for found, right in zip(outputs, expected, strict=True):
        tolerance = 2**-6 if found.dtype is torch.bfloat16 else 2e-5
        torch.testing.assert_close(found, right, rtol=tolerance, atol=tolerance)


def by_expert(logits: Tensor, outputs: list[Tensor]) -> list[Tensor]:
    """Weights and logits of the chosen experts, sorted: what stays the same when ties are broken otherwise."""
    weights, ids = outputs
    return [weights.sort(dim=-1).values, logits.gather(1, ids.long()).sort(dim=-1).values]


def assert_in_nucleus(probs: Tensor, top_p: Tensor, tokens: Tensor) -> None:
    for row, token in enumerate(tokens.tolist()):
        likelier = probs[row][probs[row] > probs[row, token]].double().sum()
        assert likelier < top_p[row] + 1e-5


@pytest.mark.parametrize("solution", PLAIN, ids=lambda one: one.name)
def test_a_torch_solution_agrees_with_the_reference(solution: Solution) -> None:
    for rows in (1, 2, 5):
        check(solution, load_python(solution), rows)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["native", "portable"])
@pytest.mark.parametrize("solution", NATIVE, ids=lambda one: one.name)
def test_a_native_solution_agrees_with_the_reference(solution: Solution, kind: str, tmp_path: Path) -> None:
    pytest.importorskip("tvm_ffi")
    if shutil.which("g++") is None:
        pytest.skip("no g++ here")
    flags = ["-march=native"] if kind == "native" else PORTABLE.get(platform.machine(), [])
    run = load_native(solution, tmp_path, flags)
    for rows in (*ROWS["few rows"], *ROWS["enough rows for threads"]):
        check(solution, run, rows if solution.definition != "gemm_bf16_n4096_k4096" else min(rows, 31))


def test_a_solution_is_named_after_what_it_is_and_does() -> None:
    for solution in SHIPPED.values():
        assert solution.name.endswith(f"_{solution.definition}")
        assert solution.author in ("baseline", "torch", "kernelmill")
        assert solution.description and solution.spec.destination_passing_style


def test_triton_solutions_are_meant_for_a_gpu() -> None:
    assert TRITON and all("cuda" in one.spec.target_hardware for one in TRITON)


@pytest.mark.slow
@pytest.mark.parametrize("solution", INTERPRETED, ids=lambda one: one.name)
def test_a_triton_solution_is_right_under_the_interpreter(solution: Solution, tmp_path: Path) -> None:
    pytest.importorskip("triton")
    script = (
        "from tests.dataset.test_shipped_kernels import SHIPPED, check\n"
        "import importlib.util, sys\n"
        "solution = SHIPPED[sys.argv[1]]\n"
        "spec = importlib.util.spec_from_file_location('kernel', sys.argv[2])\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "for rows in (1, 3): check(solution, module.run, rows)\n"
    )
    file = tmp_path / "kernel.py"
    file.write_text(solution.files["main.py"])
    command = [sys.executable, "-c", script, solution.name, str(file)]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run(command, check=True, timeout=300, cwd=Path(__file__).parents[2], env=environment)
