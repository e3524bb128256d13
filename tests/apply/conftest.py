"""What every test of apply begins with: nobody patches torch until the test itself asks for it."""

from __future__ import annotations

import pytest

from kernelmill.apply import state
from kernelmill.apply.engines import pytorch


@pytest.fixture(autouse=True)
def nobody_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "watchers", [])
    monkeypatch.setattr(pytorch, "_is_followed", False)
