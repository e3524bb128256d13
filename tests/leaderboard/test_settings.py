"""The settings are what `.env.example` says, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kernelmill.leaderboard.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("trace_schema", "dataset", "evaluator", "apply", "leaderboard", "web")
READ = re.compile(r"environ.*?\"(KERNELMILL_[A-Z_]+)\"")
INTERNAL = {"KERNELMILL_CHANNEL"}
"""Set by us for our own children, and nobody's to choose."""


def example() -> dict[str, str]:
    return dict(re.findall(r"^([A-Z_]+)=(.*)$", (ROOT / ".env.example").read_text(), re.MULTILINE))


def variables() -> set[str]:
    return {f"KERNELMILL_{name.upper()}" for name in Settings.model_fields}


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in variables():
        monkeypatch.delenv(name, raising=False)


def test_the_example_lists_every_setting_and_no_other() -> None:
    sources = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    read = {name for path in sources for name in READ.findall(path.read_text())}
    assert set(example()) == variables() | (read - INTERNAL)


def test_the_example_shows_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = Settings()
    for name, value in example().items():
        monkeypatch.setenv(name, value)
    assert Settings() == bare


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = Settings()
    for name in variables():
        monkeypatch.setenv(name, "")
    assert Settings() == bare
