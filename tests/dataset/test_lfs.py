"""A stand-in `git` on the PATH is run as the real one would be: nothing here needs git-lfs or a network."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from kernelmill.dataset import Dataset, DatasetError
from kernelmill.trace_schema import SafetensorsInput
from tests.dataset.folder import small

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 99\n"
RELATIVE = "./blob/workloads/rmsnorm/x.safetensors"
GIVEN = SafetensorsInput(type="safetensors", path=RELATIVE, tensor_key="x")


@pytest.fixture
def pointer(root: Path) -> Path:
    path = root / RELATIVE
    path.parent.mkdir(parents=True)
    path.write_text(POINTER)
    return path


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its body is for the test to write."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    program = folder / "git"
    program.touch(mode=0o755)
    return program


def test_a_pointer_is_an_error_that_says_how_to_fetch_the_file(root: Path, pointer: Path, git: Path) -> None:
    git.write_text(f"#!/bin/sh\ntouch {root}/was-run\n")
    with pytest.raises(DatasetError, match=r"git lfs pull --include blob/workloads/rmsnorm/x.safetensors"):
        Dataset.open(root).load_tensor(GIVEN)
    assert not (root / "was-run").exists()


def test_a_pointer_is_fetched_where_that_was_asked_for(root: Path, tmp_path: Path, pointer: Path, git: Path) -> None:
    (tmp_path / "real").write_bytes(save({"x": np.array([1, 2])}))
    git.write_text(f'#!/bin/sh\necho "$PWD $*" > {tmp_path}/call\ncp {tmp_path}/real "$4"\n')
    assert Dataset.open(root, lfs_timeout_s=30).load_tensor(GIVEN).tolist() == [1, 2]
    called = (tmp_path / "call").read_text()
    assert called == f"{root} lfs pull --include blob/workloads/rmsnorm/x.safetensors\n"


def test_a_fetch_that_takes_too_long_is_stopped_with_its_children(root: Path, pointer: Path, git: Path) -> None:
    git.write_text(f"#!/bin/sh\nsleep 2 && touch {root}/survived\n")
    start = time.monotonic()
    with pytest.raises(DatasetError, match=r"longer than 0.2 s"):
        Dataset.open(root, lfs_timeout_s=0.2).load_tensor(GIVEN)
    assert time.monotonic() - start < 1.5
    time.sleep(2.2)
    assert not (root / "survived").exists()


@pytest.mark.parametrize("body", ["echo no such remote >&2; exit 1", "exit 0"], ids=["fails", "does nothing"])
def test_a_fetch_that_brings_nothing_says_why(root: Path, pointer: Path, git: Path, body: str) -> None:
    git.write_text(f"#!/bin/sh\n{body}\n")
    reason = "no such remote" if "remote" in body else "could not be fetched"
    with pytest.raises(DatasetError, match=reason):
        Dataset.open(root, lfs_timeout_s=30).load_tensor(GIVEN)


def test_without_git_the_error_says_so(root: Path, pointer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DatasetError, match="git cannot be run"):
        Dataset.open(root, lfs_timeout_s=30).load_tensor(GIVEN)


def test_definitions_and_traces_that_are_pointers_are_reported(root: Path) -> None:
    small(root)
    (root / "definitions/rmsnorm/other.json").write_text(POINTER)
    (root / "traces/alice/rmsnorm/rmsnorm_h8.jsonl").write_text(POINTER)
    problems = Dataset.open(root).problems()
    assert [problem.file for problem in problems] == [
        "definitions/rmsnorm/other.json",
        "traces/alice/rmsnorm/rmsnorm_h8.jsonl",
    ]
    for problem in problems:
        assert problem.advice == f"run `git lfs pull --include {problem.file}`"
