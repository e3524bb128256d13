"""Builders: what is refused, what is cached, whose fault a failure is. No C++ here: see test_builders_native."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kernelmill.evaluator.builders import BUILDERS, Artifact, BuildError, UnsupportedHere, build, builder_for, toolchain
from kernelmill.evaluator.builders.cache import Cache
from kernelmill.evaluator.builders.pipeline import cache_key, read_outcome
from kernelmill.evaluator.builders.sources import write_sources
from kernelmill.evaluator.sandbox import Completed, Limits, Mount, Unsandboxed
from kernelmill.trace_schema import Binding, BuildSpec, InternalError, Language, Solution, SourceFile

LIMITS = Limits()
MAIN = "def run(x, out):\n    out.copy_(2 * x)\n"


def solution(
    files: Mapping[str, str], entry_point: str = "main.py::run", language: str = "python", **spec: Any
) -> Solution:
    return Solution(
        name="candidate",
        definition="double",
        author="tester",
        spec=BuildSpec(language=Language(language), target_hardware=["cpu"], entry_point=entry_point, **spec),
        sources=[SourceFile(path=path, content=content) for path, content in files.items()],
    )


class Scripted(Unsandboxed):
    """A sandbox that counts its runs and lets a test answer instead of the child."""

    def __init__(self, answer: Callable[[dict[str, Any]], Completed | None] = lambda order: None) -> None:
        self.runs = 0
        self.answer = answer

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float, **rest: Any) -> Completed:
        self.runs += 1
        answered = self.answer(json.loads(stdin))
        return answered or super().run(argv, stdin=stdin, timeout_s=timeout_s, **rest)


def said(status: str, log: str = "") -> Completed:
    return Completed(0, json.dumps({"status": status, "log": log}), False, None)


def make(candidate: Solution, cache: Path, sandbox: Unsandboxed | None = None, timeout_s: float = 60) -> Artifact:
    return build(candidate, cache=cache, sandbox=sandbox or Unsandboxed(), timeout_s=timeout_s, limits=LIMITS)


def test_python_artifact_is_the_package_tree_and_nothing_else(tmp_path: Path) -> None:
    files = {"main.py": "from .lib.ops import double as run\n", "lib/ops.py": MAIN.replace("run", "double")}
    artifact = make(solution(files, destination_passing_style=False), tmp_path)
    found = {p.relative_to(artifact.directory).as_posix(): p.read_text() for p in artifact.directory.rglob("*.*")}
    assert found == files
    assert (artifact.kind, artifact.entry, artifact.symbol) == ("python", "main.py", "run")
    assert (artifact.destination_passing, artifact.timed, artifact.cached) == (False, True, False)


def test_a_relative_cache_gives_an_absolute_artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert make(solution({"main.py": MAIN}), Path("cache")).directory.is_relative_to(tmp_path)


def test_building_runs_nothing_of_the_solution(tmp_path: Path) -> None:
    make(solution({"main.py": f"open({str(tmp_path / 'ran')!r}, 'w')\n" + MAIN}), tmp_path / "cache")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def run(:\n", "main.py:1: SyntaxError: invalid syntax"),
        ("def run(x):\nreturn x\n", "main.py:2: IndentationError"),
        ("x = '\0'\n", "main.py:1: SyntaxError: source code string cannot contain null bytes"),
        ("x = " + "(" * 500 + "\n", "too many nested parentheses"),
        ("x = " + "-" * 200_000 + "1\n", "main.py:1: "),
    ],
)
def test_python_that_does_not_parse_is_a_compile_error_that_names_the_line(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(BuildError) as caught:
        make(solution({"main.py": text}), tmp_path)
    assert caught.value.kind == "compile"
    assert said in str(caught.value) or said.replace("source code string", "source code") in str(caught.value)


@pytest.mark.parametrize("entry", ["main.txt", "v1.2/main.py", "my.kernel.py"])
def test_python_entry_file_must_be_importable(tmp_path: Path, entry: str) -> None:
    with pytest.raises(BuildError, match="entry file") as caught:
        make(solution({entry: MAIN}, f"{entry}::run"), tmp_path)
    assert caught.value.kind == "compile"


@pytest.mark.parametrize(
    "path",
    [
        "/etc/evil.py",
        "../evil.py",
        "a/../../evil.py",
        "a//b.py",
        "a/",
        ".",
        "..",
        "a\\b.py",
        "C:evil.py",
        "a\0b",
        "n\n.py",
        "a/" * 40 + "b.py",
        "a" * 300 + ".py",
        "/".join(["a" * 200] * 6),
    ],
)
def test_hostile_paths_are_invalid_even_where_the_schema_was_bypassed(tmp_path: Path, path: str) -> None:
    (tmp_path / "root").mkdir()
    with pytest.raises(BuildError, match="cannot be written") as caught:
        write_sources([SourceFile.model_construct(path=path, content="x")], tmp_path / "root")
    assert caught.value.kind == "invalid"
    assert list(tmp_path.rglob("*")) == [tmp_path / "root"]


@pytest.mark.parametrize("paths", [("a.py", "./a.py"), ("a", "a/b"), ("a/b", "a")])
def test_two_sources_cannot_be_one_file(tmp_path: Path, paths: Sequence[str]) -> None:
    with pytest.raises(BuildError, match="rename it"):
        write_sources([SourceFile.model_construct(path=path, content="x") for path in paths], tmp_path)


def test_sources_are_never_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "root" / "pkg").symlink_to(tmp_path / "outside")
    (tmp_path / "root" / "main.py").symlink_to(tmp_path / "outside" / "main.py")
    for path in ("pkg/a.py", "main.py"):
        with pytest.raises(BuildError, match="cannot be written"):
            write_sources([SourceFile(path=path, content="x")], tmp_path / "root")
    assert not list((tmp_path / "outside").iterdir())


def test_text_that_utf8_cannot_carry_and_too_much_of_it_are_invalid(tmp_path: Path) -> None:
    for number, sources in enumerate(
        ([("a.py", "\ud800")], [("a.py", "x" * (17 << 20))], [(f"{i}.py", "x") for i in range(1001)])
    ):
        (tmp_path / str(number)).mkdir()
        with pytest.raises(BuildError) as caught:
            write_sources([SourceFile.model_construct(path=p, content=c) for p, c in sources], tmp_path / str(number))
        assert caught.value.kind == "invalid"


def test_a_log_cannot_carry_what_no_database_or_terminal_bears(tmp_path: Path) -> None:
    sandbox = Scripted(lambda order: said("compile", "main.py:1: bad\0\x1b[31m\tname \u00fc\u2013\n"))
    with pytest.raises(BuildError) as caught:
        make(solution({"main.py": MAIN}), tmp_path, sandbox)
    assert "main.py:1: bad\\x00\\x1b[31m\tname \u00fc\u2013" in caught.value.log


@pytest.mark.parametrize("language", ["cuda", "tilelang"])
def test_languages_without_a_builder_are_nobodys_fault(tmp_path: Path, language: str) -> None:
    with pytest.raises(UnsupportedHere, match=f"candidate.*{language}.*NVIDIA GPU"):
        make(solution({"main.cu": "x"}, "main.cu::run", language), tmp_path)


def test_triton_that_is_not_installed_is_nobodys_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedHere, match="pip install triton"):
        make(solution({"main.py": MAIN}, language="triton"), tmp_path)


def test_missing_compiler_is_ours_and_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for binding in Binding:
        candidate = solution({"main.cpp": "x"}, "main.cpp::run", "cpp", binding=binding)
        with pytest.raises(InternalError, match=r"candidate.*g\+\+ not found.*apt-get install g\+\+"):
            make(candidate, tmp_path)


def test_each_language_and_binding_finds_its_builder() -> None:
    assert [builder_for(builder.example).kind for builder in BUILDERS] == ["python", "triton", "tvm-ffi", "torch"]
    assert builder_for(solution({"a.cpp": "x"}, "a.cpp::run", "cpp")).kind == "tvm-ffi"


def test_triton_is_interpreted_and_its_time_means_nothing(tmp_path: Path) -> None:
    artifact = make(solution({"main.py": MAIN}, language="triton"), tmp_path)
    assert (artifact.worker_env, artifact.timed) == ({"TRITON_INTERPRET": "1"}, False)


def test_second_build_comes_from_the_cache(tmp_path: Path) -> None:
    sandbox = Scripted()
    first, second = (make(solution({"main.py": MAIN}), tmp_path, sandbox) for _ in range(2))
    assert (first.cached, second.cached, sandbox.runs) == (False, True, 1)
    assert (second.directory, second.seconds) == (first.directory, first.seconds)


def test_key_changes_with_all_that_a_build_reads() -> None:
    python, triton, *_ = BUILDERS
    base = solution({"main.py": MAIN, "b.py": "x = 1\n"})
    others = [
        solution({"main.py": MAIN, "b.py": "x = 2\n"}),
        solution({"main.py": MAIN, "c.py": "x = 1\n"}),
        solution({"main.py": MAIN}),
        solution({"main.py": MAIN + "x", "b.py": " = 1\n"}),
        solution({"main.py": MAIN, "b.py": "x = 1\n"}, "b.py::run"),
        solution({"main.py": MAIN, "b.py": "x = 1\n"}, "main.py::other"),
    ]
    keys = {cache_key(python, one) for one in (base, *others)} | {cache_key(triton, base)}
    assert len(keys) == 8
    assert cache_key(python, base) == cache_key(python, solution({"./b.py": "x = 1\n", "main.py": MAIN}))


def test_key_changes_with_compiler_flags_processor_and_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = next(builder for builder in BUILDERS if builder.kind == "tvm-ffi")
    keys = {cache_key(builder, builder.example)}
    answers = {"--version": "g++ 99", "--help=target": "-mavx1024"}
    real = toolchain.ask
    for flag, answer in answers.items():
        monkeypatch.setattr(toolchain, "ask", lambda *argv, f=flag, a=answer: a if f in argv else real(*argv))
        keys.add(cache_key(builder, builder.example))
    monkeypatch.setattr(toolchain, "ask", real)
    monkeypatch.setattr(toolchain, "FLAGS", (*toolchain.FLAGS, "-g"))
    keys.add(cache_key(builder, builder.example))
    for package in ("torch", "apache-tvm-ffi"):
        monkeypatch.setattr(toolchain, "package_version", lambda name, p=package: "0.0" if name == p else "1.0")
        keys.add(cache_key(builder, builder.example))
    assert len(keys) == 6


def edited(directory: Path) -> None:
    (directory / "files" / "main.py").write_text("evil = 1\n")


def added(directory: Path) -> None:
    (directory / "files" / "torch.py").write_text("evil = 1\n")


def linked(directory: Path) -> None:
    content = (directory / "files" / "main.py").rename(directory / "elsewhere.py")
    (directory / "files" / "main.py").symlink_to(content)


def removed(directory: Path) -> None:
    (directory / "files" / "main.py").unlink()


def unreadable(directory: Path) -> None:
    (directory / "manifest.json").write_text('{"files": 3')


def replaced(directory: Path) -> None:
    directory.rename(directory.with_name("moved"))
    directory.symlink_to("moved")


@pytest.mark.parametrize("damage", [edited, added, linked, removed, unreadable, replaced])
def test_damaged_entry_is_built_again(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    first = make(solution({"main.py": MAIN}), tmp_path)
    damage(first.directory.parent)
    again = make(solution({"main.py": MAIN}), tmp_path)
    assert not again.cached
    assert [p.name for p in again.directory.iterdir()] == ["main.py"]
    assert (again.directory / "main.py").read_text() == MAIN
    assert make(solution({"main.py": MAIN}), tmp_path).cached


def test_concurrent_builds_of_one_key_build_once(tmp_path: Path) -> None:
    sandbox = Scripted()
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: make(solution({"main.py": MAIN}), tmp_path, sandbox), range(4)))
    assert sandbox.runs == 1
    assert sorted(artifact.cached for artifact in made) == [False, True, True, True]


def test_a_lock_that_is_never_released_is_ours_and_named(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    with cache.locked("key", 1), pytest.raises(InternalError, match=r"key\.lock for 0\.1 s"), cache.locked("key", 0.1):
        pass
    with cache.locked("key", 0.1):
        pass


def test_compile_error_is_remembered_with_its_log(tmp_path: Path) -> None:
    sandbox = Scripted(lambda order: said("compile", "a.py:1: SyntaxError: no\nmore"))
    for _ in range(2):
        with pytest.raises(BuildError, match=r"a\.py:1: SyntaxError: no") as caught:
            make(solution({"main.py": MAIN}), tmp_path, sandbox)
        assert caught.value.log.endswith("more")
    assert sandbox.runs == 1


@pytest.mark.parametrize(
    ("completed", "error", "kind"),
    [
        (Completed(-9, "", True, "time"), BuildError, "timeout"),
        (Completed(-9, "", False, "memory"), BuildError, "resource"),
        (said("resource", "g++: fatal error: Killed signal"), BuildError, "resource"),
        (said("toolchain", "cannot execute cc1plus"), InternalError, None),
        (Completed(1, "bwrap: no permission", False, None), InternalError, None),
    ],
)
def test_what_may_differ_next_time_is_not_remembered(
    tmp_path: Path, completed: Completed, error: type[Exception], kind: str | None
) -> None:
    with pytest.raises(error) as caught:
        make(solution({"main.py": MAIN}), tmp_path, Scripted(lambda order: completed))
    assert getattr(caught.value, "kind", None) == kind
    assert not make(solution({"main.py": MAIN}), tmp_path).cached


@pytest.mark.parametrize(
    "line",
    [
        "",
        "PASSED",
        "[]",
        '{"status": "passed", "log": ""}',
        '{"status": "ok", "log": 3}',
        '{"status": "ok", "log": "", "directory": "/"}',
        json.dumps({"status": "ok", "log": "x" * (65 << 10)}),
    ],
)
def test_the_childs_answer_is_checked_as_data(line: str) -> None:
    with pytest.raises(InternalError, match="build sandbox failed"):
        read_outcome(Completed(0, line, False, None), 1.0)


def link_to_a_secret(target: Path) -> None:
    target.symlink_to("/etc/hostname")


def pipe(target: Path) -> None:
    os.mkfifo(target)


def too_large(target: Path) -> None:
    with target.open("wb") as file:
        file.truncate((64 << 20) + 1)


def nothing(target: Path) -> None:
    assert not target.exists()


@pytest.mark.parametrize("leave", [link_to_a_secret, pipe, too_large, nothing])
def test_only_a_regular_file_of_bounded_size_enters_the_cache(tmp_path: Path, leave: Callable[[Path], None]) -> None:
    def child(order: dict[str, Any]) -> Completed:
        leave(Path(order["output"]) / order["library"]["library"])
        return said("ok")

    with pytest.raises(InternalError, match="no usable library"):
        make(BUILDERS[2].example, tmp_path, Scripted(child))
    assert not list((tmp_path / "build").rglob("*.so"))


def test_what_else_the_child_leaves_does_not_enter_the_cache(tmp_path: Path) -> None:
    def child(order: dict[str, Any]) -> Completed:
        for name in (order["library"]["library"], "sitecustomize.py"):
            (Path(order["output"]) / name).write_text("x")
        return said("ok")

    artifact = make(BUILDERS[2].example, tmp_path, Scripted(child))
    assert [path.name for path in artifact.directory.iterdir()] == [artifact.entry]
    assert sorted(path.suffix for path in (tmp_path / "build").iterdir()) == ["", ".lock"]


def test_the_sandbox_may_write_to_the_output_and_only_there(tmp_path: Path) -> None:
    seen: list[Mount] = []

    class Recording(Unsandboxed):
        def run(self, argv: Sequence[str], *, mounts: Sequence[Mount] = (), **rest: Any) -> Completed:
            seen.extend(mounts)
            return super().run(argv, mounts=mounts, **rest)

    make(solution({"main.py": MAIN}), tmp_path, Recording())
    assert [(mount.target, mount.writable) for mount in seen] == [("/source", False), ("/output", True)]


def test_builders_import_neither_torch_nor_triton() -> None:
    heavy = "{'torch', 'triton', 'tvm_ffi', 'numpy'}"
    code = f"import sys, kernelmill.evaluator.builders as b; b.BUILDERS; print({heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "set()\n"
