"""The examples that serve, with a server in an engine's place that says whether apply was on."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SERVER = """\
import http.server, json, os, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        said = {"choices": [{"text": "on" if os.environ["KERNELMILL_ENABLE_APPLY"] else "off"}]}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())

    do_GET = do_POST = answer

http.server.HTTPServer(("127.0.0.1", int(sys.argv[-1])), Handler).serve_forever()
"""


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = example("serving")
    monkeypatch.setattr(made, "SETTLE_S", 0.0)
    monkeypatch.setitem(sys.modules, "serving", made)
    return made


def test_both_answers_and_their_speeds_are_printed(serving: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    serving.compare([sys.executable, "-c", SERVER], {})
    first, second, last = capfd.readouterr().out.splitlines()[:3]
    assert first.startswith("with ")
    assert first.endswith("tokens/s  'on'")
    assert second.startswith("without ")
    assert second.endswith("tokens/s  'off'")
    assert last == "what was substituted, and what was not:"


def test_a_server_that_does_not_start_is_said(serving: ModuleType) -> None:
    with pytest.raises(SystemExit, match="did not start"):
        serving.compare([sys.executable, "-c", "raise SystemExit(1)"], {})


@pytest.mark.parametrize("name", ["serve_vllm", "serve_sglang"])
def test_each_starts_its_engine_with_the_model_and_the_flags_given(
    name: str, serving: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(serving, "compare", lambda command, environ: asked.append(command))
    monkeypatch.setattr(sys, "argv", [name, "a/model", "--dtype", "float32"])
    example(name).main()
    (command,) = asked
    assert "a/model" in command
    assert command[-2:] == ["--dtype", "float32"]
    assert command[command.index("--served-model-name") + 1] == "served"
