"""Builders for a GPU, as far as a host without one can tell: who builds what, and what nvcc would be told."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelmill.evaluator.builders import BuildError, UnsupportedHere, builder_for, builders_for, nvcc
from kernelmill.evaluator.builders.child import build_library
from kernelmill.evaluator.builders.pipeline import cache_key
from kernelmill.evaluator.builders.plan import LibraryPlan
from kernelmill.trace_schema import Solution
from tests.builders import raw_solution

FAKE_NVCC = """\
#!/bin/sh
[ "$1" = --version ] && { echo "nvcc: NVIDIA (R) Cuda compiler driver, release 13.0"; exit 0; }
for word; do case "$word" in *.cu) source=$word;; esac; last=$word; done
exec g++ -x c++ -fPIC -c "$source" -o "$last"
"""


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toolkit whose nvcc compiles host code only."""
    tool = tmp_path / "cuda" / "bin" / "nvcc"
    tool.parent.mkdir(parents=True)
    tool.write_text(FAKE_NVCC)
    tool.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    return tmp_path / "cuda"


def solution(language: str, path: str, content: str = "", binding: str | None = None) -> Solution:
    raw = raw_solution(sources=[{"path": path, "content": content}])
    raw["spec"] |= {"language": language, "entry_point": f"{path}::run"} | ({"binding": binding} if binding else {})
    return Solution.model_validate(raw)


@pytest.mark.parametrize(
    ("language", "path", "binding", "name"),
    [
        ("python", "main.py", None, "python"),
        ("triton", "main.py", None, "triton"),
        ("cuda", "main.cu", None, "cuda (tvm-ffi)"),
        ("cuda", "main.cu", "torch", "cuda (torch)"),
        ("cpp", "main.cpp", None, "tvm-ffi"),
    ],
)
def test_each_language_has_its_builder(toolkit: Path, language: str, path: str, binding: str | None, name: str) -> None:
    assert builder_for(solution(language, path, "x", binding), "sm_90").name == name


def test_triton_is_interpreted_and_untimed_on_a_cpu_only() -> None:
    on_cpu, on_gpu = (builder_for(solution("triton", "main.py", "x"), target) for target in ("cpu", "sm_90"))
    assert (on_cpu.timed, on_cpu.worker_env()) == (False, {"TRITON_INTERPRET": "1"})
    assert (on_gpu.timed, on_gpu.worker_env()) == (True, {})


def test_cuda_without_a_gpu_names_the_command_for_a_host_that_has_one() -> None:
    with pytest.raises(UnsupportedHere, match="needs an NVIDIA GPU; on a host that has one: kernelmill run --device"):
        builder_for(solution("cuda", "main.cu", "x"))


def test_cuda_without_its_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "compiler", lambda: None)
    with pytest.raises(UnsupportedHere, match="nvcc not found; install the CUDA toolkit, or set CUDA_HOME"):
        builder_for(solution("cuda", "main.cu", "x"), "sm_90")


def test_nvcc_compiles_for_the_device_with_all_its_instructions(toolkit: Path) -> None:
    builder = builder_for(solution("cuda", "main.cu", "x"), "sm_90")
    plan = builder.plan(solution("cuda", "main.cu", "x"), "kernelmill_1")
    assert isinstance(plan, LibraryPlan)
    assert plan.cuda_compiler == str(toolkit / "bin" / "nvcc")
    assert "-gencode=arch=compute_90a,code=sm_90a" in plan.cuda_flags
    assert "-gencode=arch=compute_80,code=sm_80" in nvcc.flags("sm_80")
    assert {"-lcudart", f"-L{toolkit / 'lib64'}"} <= set(plan.link_flags)


def test_another_architecture_is_another_build(toolkit: Path) -> None:
    wanted = solution("cuda", "main.cu", "x")
    keys = {cache_key(builder_for(wanted, target), wanted) for target in ("sm_80", "sm_90", "sm_100")}
    assert len(keys) == 3


def test_a_cuda_solution_needs_a_cuda_file(toolkit: Path) -> None:
    wanted = solution("cuda", "main.cpp", "x")
    with pytest.raises(BuildError, match=r"needs a source that ends in \.cu"):
        builder_for(wanted, "sm_90").plan(wanted, "kernelmill_1")


def test_cu_files_go_to_nvcc_and_the_others_to_the_host_compiler(toolkit: Path, tmp_path: Path) -> None:
    (tmp_path / "one.cu").write_text('extern "C" int two(); extern "C" int one() { return two(); }\n')
    (tmp_path / "two.cpp").write_text('extern "C" int two() { return 2; }\n')
    plan = LibraryPlan(
        compiler="g++",
        flags=("-fPIC",),
        cxx_flags=(),
        link_flags=("-Wl,-z,defs",),
        sources=("one.cu", "two.cpp"),
        library="both.so",
        export="one",
        hint="",
        cuda_compiler=str(toolkit / "bin" / "nvcc"),
        cuda_flags=nvcc.flags("sm_90"),
    )
    (tmp_path / "out").mkdir()
    outcome = build_library(tmp_path, tmp_path / "out", plan)
    assert outcome.status == "ok", outcome.log
    assert (tmp_path / "out" / "both.so").is_file()


def test_every_builder_for_a_gpu_has_an_example_it_accepts() -> None:
    for builder in builders_for("sm_90"):
        assert builder.accepts(builder.example)
