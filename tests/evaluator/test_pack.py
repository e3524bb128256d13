"""Sources in a folder and a Solution in a file are two forms of the same thing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelmill.evaluator.pack import pack, unpack
from kernelmill.trace_schema import Solution
from kernelmill.trace_schema.errors import SubmissionError
from tests.builders import raw_solution


def test_sub_directories_survive_there_and_back(tmp_path: Path) -> None:
    sources = [
        {"path": "main.cpp", "content": '#include "inner/more.h"\n'},
        {"path": "inner/more.h", "content": "// é 漢\r\n"},
        {"path": "inner/deep/er.txt", "content": "no newline at the end"},
    ]
    spec = {"language": "cpp", "entry_point": "main.cpp::run", "future_field": [1, 2]}
    raw = raw_solution(name="my/../kernel v1", sources=sources, spec=spec, unknown={"kept": True})
    file = tmp_path / "solution.json"
    file.write_text(json.dumps(raw), encoding="utf-8")
    folder = unpack(file, tmp_path)
    assert folder.parent == tmp_path
    assert json.loads(pack(folder).model_dump_json(exclude_unset=True)) == {
        **raw,
        "sources": sorted(sources, key=lambda source: source["path"]),
    }
    assert pack(folder).hash() == Solution.model_validate(raw).hash()


def folder_with(tmp_path: Path, **files: str | bytes) -> Path:
    meta = {k: v for k, v in raw_solution().items() if k != "sources"}
    (tmp_path / "solution.json").write_text(json.dumps(meta))
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / name.replace("_py", ".py")).write_bytes(data)
    return tmp_path


def test_what_is_no_source_is_left_out(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, main_py="def run(): pass\n")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "main.pyc").write_bytes(b"\x00\xff")
    assert [source.path for source in pack(folder).sources] == ["main.py"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "sources"),
        ({"other_py": "x = 1\n"}, "main.py"),
        ({"main_py": b"\xff\xfe"}, "is not UTF-8 text"),
        ({"main_py": "x" * (9 << 20)}, "more than 8 MiB"),
    ],
    ids=["no source", "no entry file", "binary", "too large"],
)
def test_what_cannot_be_packed_says_why(files: dict[str, str | bytes], message: str, tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match=message):
        pack(folder_with(tmp_path, **files))


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, main_py="def run(): pass\n")
    (folder / "more.py").symlink_to("/etc/hostname")
    with pytest.raises(SubmissionError, match="is a link"):
        pack(folder)


def test_a_folder_without_meta_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(
        SubmissionError, match=r"has no solution\.json; write one with name, definition, author and spec"
    ):
        pack(tmp_path)


def test_unpacking_overwrites_nothing(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text(json.dumps(raw_solution()))
    unpack(file, tmp_path)
    with pytest.raises(SubmissionError, match="exists already"):
        unpack(file, tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"name": "x"}'])
def test_a_file_that_is_no_solution_names_the_field(content: str, tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text(content)
    with pytest.raises(SubmissionError, match=r"s\.json: "):
        unpack(file, tmp_path)
