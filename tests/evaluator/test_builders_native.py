"""Builders with a real compiler in a real sandbox (bubblewrap where the host allows it)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kernelmill.evaluator.builders import BUILDERS, Artifact, Builder, BuildError, build, check_builder
from kernelmill.evaluator.builders import load as load_module
from kernelmill.evaluator.sandbox import Limits, Mount, Sandbox, Unsandboxed, open_sandbox, probe
from kernelmill.trace_schema import Binding, InternalError
from tests.evaluator.test_builders import solution

DRIVER = """
import importlib.util, json, sys, torch
spec = importlib.util.spec_from_file_location("loader", sys.argv[1])
loader = importlib.util.module_from_spec(spec)
spec.loader.exec_module(loader)
function = loader.load(*sys.argv[2:])
x, out = torch.arange(5, dtype=torch.float32), torch.empty(5)
function(x, out)
print(json.dumps(out.tolist()))
"""
HEAD = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
using tvm::ffi::TensorView;
static float* data(TensorView t) { return static_cast<float*>(t.data_ptr()); }
"""
EXPORT = "\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);\n"
BODY = "{ for (int64_t i = 0; i < x.size(0); ++i) data(out)[i] = 2 * data(x)[i]; }\n"
GOOD = f"{HEAD}void run(TensorView x, TensorView out) {BODY}{EXPORT}"


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return open_sandbox("none" if probe() else "bwrap")


def compile_cpp(
    files: dict[str, str], cache: Path, sandbox: Sandbox, *, binding: Binding | None = None, timeout_s: float = 200
) -> Artifact:
    candidate = solution(files, f"{next(iter(files))}::run", "cpp", binding=binding)
    return build(candidate, cache=cache, sandbox=sandbox, timeout_s=timeout_s, limits=Limits())


def call(artifact: Artifact, sandbox: Sandbox) -> list[float]:
    """What the artifact's function makes of 0, 1, 2, 3, 4, called in the sandbox."""
    mounts = [Mount(artifact.directory, "/artifact"), Mount(Path(load_module.__file__), "/load.py")]
    directory, loader = map(sandbox.inside, mounts)
    argv = [sys.executable, "-I", "-B", "-c", DRIVER, loader, artifact.kind, directory, artifact.entry, artifact.symbol]
    done = sandbox.run(argv, mounts=mounts, env=artifact.worker_env, limits=Limits(), timeout_s=120)
    assert done.returncode == 0, done.output
    return list(json.loads(done.output.splitlines()[-1]))


def refused(files: dict[str, str], cache: Path, sandbox: Sandbox, **options: object) -> BuildError:
    with pytest.raises(BuildError) as caught:
        compile_cpp(files, cache, sandbox, **options)  # type: ignore[arg-type]
    return caught.value


@pytest.mark.parametrize(
    "builder",
    [pytest.param(b, id=b.kind, marks=[pytest.mark.slow] if b.kind == "torch" else []) for b in BUILDERS],
)
def test_every_builder_passes_its_self_test(builder: Builder, sandbox: Sandbox) -> None:
    def doubles(artifact: Artifact) -> str | None:
        got = call(artifact, sandbox)
        return None if got == [0, 2, 4, 6, 8] else f"wrong result {got}"

    assert check_builder(builder, sandbox, run=doubles) is None


def test_self_test_passes_on_what_the_run_found(sandbox: Sandbox) -> None:
    assert check_builder(BUILDERS[0], sandbox, run=lambda artifact: f"wrong {artifact.symbol}") == "wrong run"


def test_self_test_says_what_is_missing(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt-get install g++" in (check_builder(BUILDERS[2], sandbox) or "")


def test_sources_in_sub_directories_of_equal_names_and_in_c(tmp_path: Path, sandbox: Sandbox) -> None:
    files = {
        "main.cpp": HEAD + '#include "inc/part.h"\nvoid run(TensorView x, TensorView out) '
        "{ for (int64_t i = 0; i < 5; ++i) data(out)[i] = one(data(x)[i]) + two(data(x)[i]) + three(data(x)[i]); }"
        + EXPORT,
        "inc/part.h": 'float one(float);\nfloat two(float);\nextern "C" float three(float);\n',
        "a/part.cpp": '#include "inc/part.h"\nfloat one(float x) { return x; }\n',
        "b/part.cc": '#include "inc/part.h"\nfloat two(float x) { return 10 * x; }\n',
        "c/part.c": "float three(float x) { int new = 100; return new * x; }\n",
        "-O0.cxx": "int option;\n",
        "long" * 62 + ".cpp": "int named_as_long_as_may_be;\n",
    }
    assert call(compile_cpp(files, tmp_path, sandbox), sandbox) == [0, 111, 222, 333, 444]


def test_compile_error_names_the_place(tmp_path: Path, sandbox: Sandbox) -> None:
    error = refused({"main.cpp": "int x = nonsense;\n"}, tmp_path, sandbox)
    assert error.kind == "compile"
    assert str(error).startswith("./main.cpp:1:9: error: ")
    assert "nonsense" in error.log


def test_unresolved_symbol_is_found_at_build_time(tmp_path: Path, sandbox: Sandbox) -> None:
    text = GOOD.replace("data(out)[i] =", "data(out)[i] = nowhere() *").replace(
        "void run", "float nowhere();\nvoid run"
    )
    error = refused({"main.cpp": text}, tmp_path, sandbox)
    assert error.kind == "compile"
    assert "undefined reference to `nowhere()'" in str(error)


@pytest.mark.slow
def test_torch_extension_with_an_unresolved_symbol(tmp_path: Path, sandbox: Sandbox) -> None:
    torch_builder = next(builder for builder in BUILDERS if builder.kind == "torch")
    text = torch_builder.example.sources[0].content.replace(
        "void scale", "int nowhere();\nint first = nowhere();\nvoid scale"
    )
    error = refused({"main.cpp": text}, tmp_path, sandbox, binding=Binding.TORCH)
    assert error.kind == "compile"
    assert "undefined reference to `nowhere()'" in str(error)
    assert "Py" not in error.log


@pytest.mark.parametrize(
    ("binding", "hint"),
    [
        (Binding.TVM_FFI, r"TVM_FFI_DLL_EXPORT_TYPED_FUNC\(run"),
        (Binding.TORCH, r"PYBIND11_MODULE\(TORCH_EXTENSION_NAME"),
    ],
)
def test_missing_export_tells_the_author_what_to_write(
    tmp_path: Path, sandbox: Sandbox, binding: Binding, hint: str
) -> None:
    with pytest.raises(BuildError, match=f"does not export.*{hint}") as caught:
        compile_cpp({"main.cpp": "void run() {}\n"}, tmp_path, sandbox, binding=binding)
    assert caught.value.kind == "compile"


def test_a_file_that_only_claims_to_be_cpp_is_refused(tmp_path: Path, sandbox: Sandbox) -> None:
    assert "set language cuda" in str(refused({"main.cu": GOOD}, tmp_path, sandbox))
    assert "nothing to compile" in str(refused({"main.h": GOOD}, tmp_path, sandbox))


def test_static_initialisers_do_not_run_during_the_build(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    text = f'#include <cstdio>\nstatic FILE* trap = fopen("{ran}", "w");\n{GOOD}'
    artifact = compile_cpp({"main.cpp": text}, tmp_path / "cache", Unsandboxed())
    assert not ran.exists()
    call(artifact, Unsandboxed())
    assert ran.exists()


@pytest.mark.parametrize("reach", ['#include "{}"\n', 'asm(".incbin \\"{}\\"");\n'])
def test_files_of_the_host_cannot_be_compiled_in(tmp_path: Path, sandbox: Sandbox, reach: str) -> None:
    if sandbox.kind == "none":
        pytest.skip("needs the sandbox")
    secret = tmp_path / "secret.h"
    secret.write_text("#error TOP-SECRET\n")
    error = refused({"main.cpp": GOOD + reach.format(secret)}, tmp_path / "cache", sandbox)
    assert "TOP-SECRET" not in error.log
    assert error.kind == "compile"


def test_a_build_that_takes_too_long_is_stopped_and_not_remembered(tmp_path: Path, sandbox: Sandbox) -> None:
    files = {"main.cpp": "#include <torch/extension.h>\n"}
    error = refused(files, tmp_path, sandbox, binding=Binding.TORCH, timeout_s=2)
    assert error.kind == "timeout"
    assert [path.suffix for path in (tmp_path / "build").iterdir()] == [".lock"]


def test_a_library_that_is_too_large_is_a_matter_of_resources(tmp_path: Path, sandbox: Sandbox) -> None:
    for size, text in (("far", "char big[1 << 30] = {1};\n"), ("just", "char big[65 << 20] = {1};\n")):
        error = refused({"main.cpp": text + GOOD}, tmp_path / size, sandbox)
        assert error.kind == "resource"


def test_a_compiler_that_compiles_nothing_is_not_the_authors_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "g++"
    broken.write_text('#!/bin/sh\ncase "$*" in *--*) echo g++ 1;; *) echo "main.cpp:1: error: no"; exit 1;; esac\n')
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(InternalError, match="compiler does not work"):
        compile_cpp({"main.cpp": GOOD}, tmp_path / "cache", Unsandboxed())


def test_a_compiler_that_the_sandbox_does_not_show_is_not_the_authors_fault(
    tmp_path: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sandbox.kind == "none":
        pytest.skip("needs the sandbox")
    (tmp_path / "g++").write_text("#!/bin/sh\necho g++ 1\n")
    (tmp_path / "g++").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(InternalError, match=r"compiler does not work.*No such file.*g\+\+"):
        compile_cpp({"main.cpp": GOOD}, tmp_path / "cache", sandbox)


def test_a_compiler_that_fills_its_scratch_is_a_matter_of_resources(tmp_path: Path, sandbox: Sandbox) -> None:
    if sandbox.kind == "none":
        pytest.skip("needs the sandbox")
    candidate = solution({"main.cpp": "char big[60 << 20] = {1};\n" + GOOD}, "main.cpp::run", "cpp")
    with pytest.raises(BuildError) as caught:
        build(candidate, cache=tmp_path, sandbox=sandbox, timeout_s=60, limits=Limits(scratch_bytes=16 << 20))
    assert caught.value.kind == "resource"
    assert [path.suffix for path in (tmp_path / "build").iterdir()] == [".lock"]
