"""Every test keeps its index in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("KERNELMILL_CACHE", str(folder))
    for name in ("KERNELMILL_DATASET", "FIB_DATASET_PATH", "FIB_CACHE_PATH"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "dataset"
    folder.mkdir()
    return folder
