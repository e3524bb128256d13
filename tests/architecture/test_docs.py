"""What the documents promise: their Python runs, their commands exist, their links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kernelmill.evaluator.sandbox import probe

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")
COMMAND = re.compile(r"^kernelmill ([a-z]+)", re.MULTILINE)
NEED_AN_ENGINE = {"serve_sglang.py", "serve_vllm.py", "serving.py"}
"""Examples that tests/apply/engines sees to."""
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.name not in NEED_AN_ENGINE]


def blocks() -> list[tuple[str, str]]:
    return [(document.name, code) for document in DOCUMENTS for code in BLOCK.findall(document.read_text())]


@pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")
@pytest.mark.parametrize(("document", "code"), blocks(), ids=[name for name, _ in blocks()])
def test_python_in_the_documents_runs(document: str, code: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, f"{document}: {done.stderr}"
    assert "PASSED" in done.stdout


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text()):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_commands_in_the_documents_exist() -> None:
    from typer.main import get_command

    from kernelmill.cli import app

    known = set(get_command(app).commands)  # type: ignore[attr-defined]
    for document in DOCUMENTS:
        assert set(COMMAND.findall(document.read_text())) <= known, document


def test_make_targets_in_the_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in DOCUMENTS:
        assert set(re.findall(r"^make ([a-z]+)", document.read_text(), re.MULTILINE)) <= targets, document


@pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_run(example: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", str(example)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "PASSED" in done.stdout
