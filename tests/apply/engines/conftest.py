"""What both engines are tested with."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelmill.evaluator.sandbox import probe
from tests.apply.engines.kernels import operators_folder


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An operator's folder: the kernels are built and approved once."""
    if probe() is not None:
        pytest.skip(f"no sandbox on this host: {probe()}")
    return operators_folder(tmp_path_factory.mktemp("operator"))
