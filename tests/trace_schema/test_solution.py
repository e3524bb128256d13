"""Solutions: paths that stay inside, entry points that exist."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from kernelmill.trace_schema import Binding, normal_path
from tests import builders


def with_paths(*paths: str, entry: str | None = None) -> Any:
    sources = [{"path": path, "content": "x"} for path in paths]
    return builders.solution(sources=sources, spec={"entry_point": f"{entry or paths[0]}::run"})


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("main.py", "main.py"),
        ("./main.py", "main.py"),
        ("src/./a.py", "src/a.py"),
        ("é/..a.py", "é/..a.py"),
        ("C", "C"),
    ],
)
def test_paths_inside(path: str, normal: str) -> None:
    assert normal_path(path) == normal
    solution = with_paths(path)
    assert solution.spec.entry_file == normal
    assert list(solution.files) == [normal]
    assert builders.plain(solution)["sources"][0]["path"] == path


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("/etc/passwd", "absolute path not allowed"),
        ("../main.py", "parent directory traversal not allowed"),
        ("a/../main.py", "parent directory traversal not allowed"),
        ("a//main.py", "empty component"),
        ("a/", "empty component"),
        ("a/.", "names no file"),
        (".", "names no file"),
        ("a\\main.py", "Windows path"),
        ("C:main.py", "Windows path"),
        ("c:/main.py", "Windows path"),
        ("a\x00.py", "control character"),
        ("a\n.py", "control character"),
        ("a\x7f.py", "control character"),
        ("a/" + "é" * 128, "longer than 255 bytes"),
    ],
)
def test_paths_that_might_escape(path: str, complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        with_paths(path, "main.py", entry="main.py")


@pytest.mark.parametrize(
    "paths",
    [
        ("main.py", "main.py"),
        ("main.py", "./main.py"),
        ("main.py", "MAIN.py"),
        ("stra\u00dfe.py", "STRASSE.py"),
        ("\u00e9.py", "e\u0301.py"),
        ("a/b.py", "a/./b.py"),
    ],
)
def test_one_file_under_two_names(paths: tuple[str, str]) -> None:
    with pytest.raises(ValidationError, match="duplicate source path"):
        with_paths(*paths)


@pytest.mark.parametrize("paths", [("a", "a/b.py"), ("a/b.py", "A")])
def test_a_file_that_is_also_a_directory(paths: tuple[str, str]) -> None:
    with pytest.raises(ValidationError, match="is a file and also the directory of"):
        with_paths(*paths)


@pytest.mark.parametrize("entry_point", ["main.py", "main.py::", "main.py:: ", "main.py::a::b", "::run"])
def test_entry_points_without_file_or_function(entry_point: str) -> None:
    with pytest.raises(ValidationError):
        builders.solution(spec={"entry_point": entry_point})


@pytest.mark.parametrize("entry", ["other.py", "./main.py"])
def test_the_entry_file_must_be_a_source_by_its_spelling(entry: str) -> None:
    with pytest.raises(ValidationError, match=r"is not among the sources: 'main.py'"):
        with_paths("main.py", entry=entry)


def test_the_entry_point_in_parts() -> None:
    spec = with_paths("./src/k.cu").spec
    assert (spec.entry_file, spec.entry_symbol) == ("src/k.cu", "run")


@pytest.mark.parametrize(
    ("language", "binding", "effective"),
    [
        ("cuda", None, Binding.TVM_FFI),
        ("cpp", "torch", Binding.TORCH),
        ("python", "torch", None),
        ("triton", None, None),
        ("tilelang", None, None),
    ],
)
def test_the_binding_in_use(language: str, binding: str | None, effective: Binding | None) -> None:
    spec = builders.solution(spec={"language": language, "binding": binding}).spec
    assert spec.effective_binding is effective


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"author": ""},
        {"sources": []},
        {"source": ""},
        {"spec": {"target_hardware": []}},
        {"spec": {"language": "cobol"}},
        {"spec": {"binding": "pybind11"}},
        {"spec": {"dependencies": [""]}},
    ],
)
def test_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        builders.solution(**change)


def test_destination_passing_is_the_default() -> None:
    spec = builders.raw_solution()["spec"]
    del spec["destination_passing_style"]
    assert builders.solution(spec=spec).spec.destination_passing_style
