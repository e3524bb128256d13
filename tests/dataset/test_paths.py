from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernelmill.dataset import Dataset, DatasetError, default_path
from tests.dataset.folder import add_definition, small, write_json


def test_the_environment_names_the_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_path().parts[-2:] == ("dataset", "data")
    monkeypatch.setenv("FIB_DATASET_PATH", "/public")
    assert default_path() == Path("/public")
    monkeypatch.setenv("KERNELMILL_DATASET", "/ours")
    assert default_path() == Path("/ours")


@pytest.mark.parametrize(
    ("relative", "reason"),
    [
        ("../outside.safetensors", "outside the dataset"),
        ("blob/../../outside.safetensors", "outside the dataset"),
        ("/etc/passwd", "absolute"),
        ("blob/link.safetensors", "outside the dataset"),
        ("blob/folder/outside.safetensors", "outside the dataset"),
        ("blob/loop/x", "cannot be followed|is missing|cannot be read"),
        ("nul\0", "NUL"),
    ],
)
def test_no_path_leads_out_of_the_dataset(root: Path, relative: str, reason: str) -> None:
    (root.parent / "outside.safetensors").write_bytes(b"secret")
    (root / "blob").mkdir()
    (root / "blob/link.safetensors").symlink_to(root.parent / "outside.safetensors")
    (root / "blob/folder").symlink_to(root.parent)
    (root / "blob/loop").symlink_to("loop")
    with pytest.raises(DatasetError, match=reason):
        Dataset.open(root).blob_path(relative)


def test_paths_inside_may_be_spelled_in_any_way(root: Path) -> None:
    (root / "blob").mkdir()
    (root / "blob/a.safetensors").write_bytes(b"a")
    (root / "blob/link.safetensors").symlink_to("a.safetensors")
    dataset = Dataset.open(root)
    for relative in (
        "blob/a.safetensors",
        "./blob/a.safetensors",
        "blob/../blob/a.safetensors",
        "blob/link.safetensors",
    ):
        assert dataset.blob_path(relative) == root / "blob/a.safetensors"


def test_files_that_lead_out_or_are_no_files_are_reported_and_not_read(root: Path) -> None:
    small(root)
    write_json(root.parent / "outside/evil.json", {"name": "evil"})
    (root / "definitions/rmsnorm/link.json").symlink_to(root.parent / "outside/evil.json")
    (root / "definitions/folder").symlink_to(root.parent / "outside")
    (root / "definitions/rmsnorm/dangling.json").symlink_to(root / "nothing")
    os.mkfifo(root / "definitions/rmsnorm/pipe.json")
    Path(os.fsdecode(os.fsencode(root) + b"/definitions/rmsnorm/\xff.json")).write_text("{}")
    dataset = Dataset.open(root)
    assert list(dataset.definitions) == ["rmsnorm_h8"]
    reported = {problem.file.removeprefix("definitions/"): problem.reason for problem in dataset.problems()}
    assert set(reported) == {
        "folder",
        "rmsnorm/link.json",
        "rmsnorm/dangling.json",
        "rmsnorm/pipe.json",
        "rmsnorm/\\udcff.json",
    }
    assert "leaves the dataset" in reported["rmsnorm/link.json"]
    assert "regular file" in reported["rmsnorm/pipe.json"]


def test_the_links_of_a_hub_snapshot_are_followed(tmp_path: Path) -> None:
    blobs, root = tmp_path / "hub/blobs", tmp_path / "hub/snapshots/0123"
    blobs.mkdir(parents=True)
    real = add_definition(root)
    real.rename(blobs / "abcd")
    real.symlink_to(os.path.relpath(blobs / "abcd", real.parent))
    dataset = Dataset.open(root)
    assert dataset.problems() == []
    assert list(dataset.definitions) == ["rmsnorm_h8"]
