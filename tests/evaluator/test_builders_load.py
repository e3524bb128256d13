"""Loading an artifact: how the files of a solution find each other, and what is said when something is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kernelmill.evaluator.builders.load import LoadError, load


@pytest.fixture(autouse=True)
def restored_imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        del sys.modules[name]


def tree(root: Path, files: Mapping[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("main.py", "from .helper import value\ndef run(): return value\n"),
        ("main.py", "import helper\ndef run(): return helper.value\n"),
        ("main.py", "from .sub.deep import value\ndef run(): return value\n"),
        ("main.py", "from sub import deep\ndef run(): return deep.value\n"),
        ("src/main.py", "from ..helper import value\ndef run(): return value\n"),
        ("src/main.py", "import neighbour\ndef run(): return neighbour.value\n"),
        ("src/main.py", "import helper\ndef run(): return helper.value\n"),
        ("my-kernel.py", "from .helper import value\ndef run(): return value\n"),
        ("__init__.py", "value = 7\ndef run(): return value\n"),
    ],
)
def test_files_of_a_solution_find_each_other(tmp_path: Path, entry: str, text: str) -> None:
    others = {"helper.py": "value = 7\n", "sub/deep.py": "value = 7\n", "src/neighbour.py": "value = 7\n"}
    assert load("python", tree(tmp_path, {**others, entry: text}), entry, "run")() == 7


def test_the_package_file_runs_first(tmp_path: Path) -> None:
    files = {"__init__.py": "state = [1]\n", "main.py": "from . import state\ndef run(): return state\n"}
    assert load("python", tree(tmp_path, files), "main.py", "run")() == [1]


def test_two_solutions_with_the_same_file_names_stay_apart(tmp_path: Path) -> None:
    functions = [
        load("python", tree(tmp_path / name, {"main.py": f"def run(): return {name!r}\n"}), "main.py", "run")
        for name in ("a", "b")
    ]
    assert [function() for function in functions] == ["a", "b"]


def test_a_missing_symbol_is_named_with_what_is_there(tmp_path: Path) -> None:
    tree(tmp_path, {"main.py": "def rum(): pass\n"})
    with pytest.raises(LoadError, match=r"main\.py defines no 'run'.*it defines: rum"):
        load("python", tmp_path, "main.py", "run")


def test_what_is_not_callable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"'run' in main\.py is a int, not a function"):
        load("python", tree(tmp_path, {"main.py": "run = 3\n"}), "main.py", "run")


def test_a_missing_file_and_an_unknown_kind_are_named(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"main\.py is not in the artifact"):
        load("python", tmp_path, "main.py", "run")
    with pytest.raises(LoadError, match="'tilelang'"):
        load("tilelang", tree(tmp_path, {"main.py": ""}), "main.py", "run")


def test_what_the_solution_raises_passes_through(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        load("python", tree(tmp_path, {"main.py": "1 / 0\n"}), "main.py", "run")
