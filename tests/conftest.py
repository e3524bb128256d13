"""Tests keep their builds and indexes to themselves, and never look at the datasets that this machine's user has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setenv("KERNELMILL_CACHE", str(tmp_path_factory.mktemp("cache")))
    for name in ("KERNELMILL_DATASET", "FIB_DATASET_PATH", "FIB_CACHE_PATH"):
        patch.delenv(name, raising=False)
    yield
    patch.undo()
