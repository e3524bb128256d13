"""A real engine's server on this CPU, asked over HTTP: once as it is, and once with our kernels, right and wrong ones.

One start of the second serves all checks: short prompts, where all kernels are right; one of a length from which some
fail; a long one that no kernel covers.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from kernelmill.evaluator.sandbox import probe

ROOT = Path(__file__).resolve().parents[3]
ENGINES = ROOT / (os.environ.get("KERNELMILL_ENGINES") or ".engines")
START_S = 300.0
SETTLE_S = 30.0
CALM = ("Hello world", "A quick brown fox")
FAULTY = "The quick brown fox jumps over the lazy dog"
LONG = FAULTY * 2
TOKENS = 16


@dataclass(frozen=True, slots=True)
class Engine:
    """How an engine is started: its venv's name, the command before the model's folder and after it, its settings."""

    name: str
    start: tuple[str, ...]
    flags: tuple[str, ...]
    environ: Mapping[str, str]

    @property
    def venv(self) -> Path:
        return ENGINES / self.name

    @property
    def python(self) -> str:
        return str(self.venv / "bin/python")

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        missing = not (self.venv / ".ready").exists()
        return [
            pytest.mark.slow,
            pytest.mark.skipif(missing, reason=f"no {self.name} here: make engines"),
            pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}"),
        ]


class Answer(NamedTuple):
    tokens: list[str]
    logprobs: list[float]


class Served(NamedTuple):
    """What a server said with our kernels, and without; and what the process that computed has counted."""

    engine: str
    kind: str
    answers: list[Answer]
    plain: list[Answer]
    told: dict[str, Any]
    events: list[dict[str, Any]]
    log: str

    @property
    def has_gates(self) -> bool:
        """Whether each layer has one gated MLP, not experts, whose gates are inside a kernel of the engine's."""
        return self.kind != "qwen3_moe"

    @property
    def has_head_norms(self) -> bool:
        """Whether queries and keys are normed head by head, as rows of two axes: vLLM's have three."""
        return (self.engine, self.kind) == ("sglang", "qwen3")

    def calls(self, op: str, *shape: int) -> int:
        """How often our kernels served an op at this shape of its first input."""
        return sum(one["calls"] for one in self.told["engine_calls"] if (one["op"], one["shape"]) == (op, [*shape]))

    @property
    def causes(self) -> dict[str, str]:
        """Why kernels were taken out, by definition."""
        found = {name: next(iter(one["kernels"].values()))["cause"] for name, one in self.told["definitions"].items()}
        return {name: cause for name, cause in found.items() if cause}


def tiny_model(engine: Engine, kind: str, folder: Path) -> Path:
    """Made by the engine's own interpreter, which shall not find our modules beside the script."""
    script = Path(__file__).parent / "tiny_model.py"
    command = [engine.python, "-P", str(script), str(folder / kind), kind, "float32"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    return folder / kind


def serve(engine: Engine, kind: str, home: Path, folder: Path, *flags: str) -> Served:
    """Both servers at once, since starting one keeps one core busy; `flags` are for the one with our kernels."""
    model = tiny_model(engine, kind, folder)

    with ThreadPoolExecutor(1) as beside:
        plain = beside.submit(plain_answers, engine, model, folder)
        with serving(engine, model, folder / "armed", *flags, **armed(home, folder)) as address:
            answers = ask_all(address)
            told = counters(folder / "metrics")
    events = [json.loads(line) for line in (folder / "events").read_text().splitlines()]
    return Served(engine.name, kind, answers, plain.result(), told, events, (folder / "armed/log").read_text())


def plain_answers(engine: Engine, model: Path, folder: Path) -> list[Answer]:
    with serving(engine, model, folder / "plain", *PLAINLY[engine.name]) as address:
        return ask_all(address)


def same(mine: list[Answer], theirs: list[Answer]) -> None:
    """Fails unless both have the same tokens, and log-probabilities that differ by rounding alone."""
    assert [one.tokens for one in mine] == [one.tokens for one in theirs]
    for one, other in zip(mine, theirs, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=2e-3)


def armed(home: Path, folder: Path) -> dict[str, str]:
    names = {"HOME": home, "METRICS": folder / "metrics", "EVENTS": folder / "events"}
    return {"KERNELMILL_ENABLE_APPLY": "1"} | {f"KERNELMILL_APPLY_{name}": str(path) for name, path in names.items()}


@contextmanager
def serving(engine: Engine, model: Path, folder: Path, *flags: str, **over: str) -> Iterator[str]:
    """A server's address. It has a process group of its own, which is ended as a whole."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder.mkdir(parents=True)
    fixed = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "VLLM_CACHE_ROOT": str(folder / "cache")}
    command = [part.format(venv=engine.venv, model=model) for part in engine.start]
    command += ["--host", "127.0.0.1", "--port", str(port), *engine.flags, *flags]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            command,
            env={**os.environ, **fixed, **engine.environ, **over},
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )
        try:
            _wait(server, f"http://127.0.0.1:{port}", folder / "log")
            yield f"http://127.0.0.1:{port}"
        finally:
            _end(server)


def _end(server: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # it has ended already, and all that it started
        os.killpg(server.pid, signal.SIGTERM)
    try:
        server.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait(30)


def _wait(server: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()[-4000:]
        try:
            if httpx.get(f"{address}/health", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.3)
    pytest.fail(f"the server was not ready within {START_S:g} s: {log.read_text()[-4000:]}")


def ask_all(address: str) -> list[Answer]:
    """One request after the other, so that every run has the same batches."""
    return [ask(address, prompt, TOKENS) for prompt in (*CALM, FAULTY, LONG, CALM[0])]


def ask(address: str, prompt: str, tokens: int) -> Answer:
    fixed = {"model": "tiny", "temperature": 0, "ignore_eos": True, "logprobs": 1}
    reply = httpx.post(f"{address}/v1/completions", json={"prompt": prompt, "max_tokens": tokens, **fixed}, timeout=300)
    assert reply.status_code == 200, reply.text
    told = reply.json()["choices"][0]["logprobs"]
    return Answer(told["tokens"], told["token_logprobs"])


def counters(folder: Path) -> dict[str, Any]:
    """Of the process that has computed, once they are younger than this call: they are written every few seconds."""
    asked, deadline = time.time(), time.monotonic() + SETTLE_S
    while time.monotonic() < deadline:
        told: list[dict[str, Any]] = [json.loads(file.read_text()) for file in folder.glob("*.json")]
        computed = max(told, key=lambda one: sum(call["calls"] for call in one["engine_calls"]))
        if (folder / f"{computed['pid']}.json").stat().st_mtime > asked:
            return computed
        time.sleep(0.2)
    pytest.fail(f"no counters were written into {folder} within {SETTLE_S:g} s")


VLLM = Engine(
    "vllm",
    ("{venv}/bin/vllm", "serve", "{model}"),
    (
        *("--dtype", "float32", "--max-model-len", "256", "--max-num-seqs", "4", "--served-model-name", "tiny"),
        *("--gpu-memory-utilization", "0.1", "--no-enable-prefix-caching"),
    ),
    {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # the table is for all cores of this host
        "VLLM_NO_USAGE_STATS": "1",
    },
)
SGLANG = Engine(
    "sglang",
    ("{venv}/bin/python", "-m", "sglang.launch_server", "--model-path", "{model}"),
    (
        *("--dtype", "float32", "--device", "cpu", "--served-model-name", "tiny"),
        *("--max-total-tokens", "4096", "--max-running-requests", "4", "--disable-overlap-schedule"),
        *("--attention-backend", "torch_native", "--disable-radix-cache", "--skip-server-warmup"),
    ),
    {"SGLANG_USE_CPU_ENGINE": "1"},
)
PLAINLY = {"vllm": ("--enforce-eager",), "sglang": ()}
