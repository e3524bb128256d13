"""A real `vllm serve` on this CPU, asked over HTTP: the same answers with our kernels, right or wrong, as without."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from kernelmill.dataset import Dataset
from kernelmill.dataset.validate import validate
from kernelmill.evaluator.sandbox import probe
from tests.apply.engines.kernels import dataset_folder, kernels, operators_folder

ROOT = Path(__file__).resolve().parents[3]
VENV = ROOT / ".engines" / "vllm"
START_S = 300.0
PROMPTS = ("Hello world", "The quick brown fox jumps over the lazy dog")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (VENV / ".ready").exists(), reason="no vLLM here: make engines"),
    pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}"),
]


class Answer(NamedTuple):
    tokens: list[str]
    logprobs: list[float]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "qwen3"
    command = [str(VENV / "bin/python"), str(Path(__file__).parent / "tiny_model.py"), str(folder), "qwen3", "float32"]
    subprocess.run(command, check=True, capture_output=True, timeout=300, cwd=folder.parent)
    return folder


@contextmanager
def serving(model: Path, folder: Path, *args: str, **over: str) -> Iterator[str]:
    """A server's address. It has a process group of its own, which is ended as a whole."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder.mkdir(parents=True, exist_ok=True)
    fixed = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # the table is for all cores of this host
        "OMP_NUM_THREADS": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CACHE_ROOT": str(folder / "cache"),
    }
    command = [str(VENV / "bin/vllm"), "serve", str(model), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--dtype", "float32", "--max-model-len", "256", "--max-num-seqs", "4", "--served-model-name", "tiny"]
    command += ["--gpu-memory-utilization", "0.1", *args]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            command, env={**os.environ, **fixed, **over}, stdout=log, stderr=log, cwd=folder, start_new_session=True
        )
        try:
            _wait(server, f"http://127.0.0.1:{port}", folder / "log")
            yield f"http://127.0.0.1:{port}"
        finally:
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
            time.sleep(0.5)
    pytest.fail(f"vllm serve was not ready within {START_S:g} s: {log.read_text()[-4000:]}")


def burst(address: str, requests: int) -> None:
    """So many requests of different lengths, eight at a time."""

    def one(number: int) -> int:
        prompt = "The quick brown fox jumps over the lazy dog "[: number % 40 + 1]
        body = {"model": "tiny", "prompt": prompt, "max_tokens": number % 7 + 1, "ignore_eos": True}
        return httpx.post(f"{address}/v1/completions", json=body, timeout=300).status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(one, range(requests))) == {200}


def ask(address: str) -> list[Answer]:
    """One request a prompt, one after the other, so that every run has the same batches."""
    answers = []
    for prompt in PROMPTS:
        body = {
            "model": "tiny",
            "prompt": prompt,
            "max_tokens": 16,
            "temperature": 0,
            "ignore_eos": True,
            "logprobs": 1,
        }
        reply = httpx.post(f"{address}/v1/completions", json=body, timeout=300)
        assert reply.status_code == 200, reply.text
        told: dict[str, Any] = reply.json()["choices"][0]["logprobs"]
        answers.append(Answer(told["tokens"], told["token_logprobs"]))
    return answers


def worker(folder: Path) -> dict[str, Any]:
    """The counters of the process that computed."""
    told = [json.loads(file.read_text()) for file in (folder / "metrics").glob("*.json")]
    return max(told, key=lambda one: sum(call["calls"] for call in one["engine_calls"]))


def served(told: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for call in told["engine_calls"]:
        found[call["op"]] = found.get(call["op"], 0) + call["calls"]
    return found


def armed(home: Path, folder: Path, **over: str) -> dict[str, str]:
    names = {"HOME": str(home), "METRICS": str(folder / "metrics"), "EVENTS": str(folder / "events"), **over}
    return {"KERNELMILL_ENABLE_APPLY": "1"} | {f"KERNELMILL_APPLY_{name}": value for name, value in names.items()}


def same(mine: list[Answer], theirs: list[Answer]) -> None:
    assert [one.tokens for one in mine] == [one.tokens for one in theirs]
    for one, other in zip(mine, theirs, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=2e-3)


@pytest.fixture(scope="module")
def plain(model: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    """vLLM as it is, eager."""
    folder = tmp_path_factory.mktemp("plain")
    with serving(model, folder, "--enforce-eager") as address:
        return ask(address)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_the_answers_are_the_same_and_the_kernels_served_them(
    mode: str, model: Path, plain: list[Answer], tmp_path: Path
) -> None:
    home = operators_folder(tmp_path / "home")
    flags = ("--enforce-eager",) if mode == "eager" else ()
    with serving(model, tmp_path / mode, *flags, **armed(home, tmp_path / mode)) as address:
        same(ask(address), plain)
        time.sleep(6)  # counters are written every 5 s
    told = worker(tmp_path / mode)
    counts = served(told)
    assert all(counts[op] > 30 for op in ("rms_norm", "fused_add_rms_norm", "silu_and_mul", "gemm")), counts
    assert {tuple(call["shape"]) for call in told["engine_calls"] if call["op"] == "silu_and_mul"} >= {(1, 1024)}
    assert not any(kernel["is_tripped"] for one in told["definitions"].values() for kernel in one["kernels"].values())
    assert "rms_norm for [(256, 1e-05)]" in (tmp_path / mode / "log").read_text()


def test_kernels_that_raise_give_nan_or_are_wrong_harm_no_answer_and_large_batches_are_the_engines(
    model: Path, plain: list[Answer], tmp_path: Path
) -> None:
    """Every call is looked at; one kernel is right but covers two rows at most."""
    faults = {"rmsnorm_f32": "raises", "silu_and_mul_f32": "nan", "gemm_f32_n256_k256": "wrong"}
    home = operators_folder(tmp_path / "home", most_rows=2, faults=faults)
    over = armed(home, tmp_path / "faulty", SHADOW="1")
    with serving(model, tmp_path / "faulty", "--enforce-eager", **over) as address:
        same(ask(address), plain)
        time.sleep(6)
    told = worker(tmp_path / "faulty")["definitions"]
    causes = {name: next(iter(one["kernels"].values()))["cause"] for name, one in told.items()}
    assert causes == {
        "rmsnorm_f32": "exception",
        "silu_and_mul_f32": "non_finite",
        "gemm_f32_n256_k256": "mismatch",
        "fused_add_rmsnorm_f32": None,
        "gemm_f32_n256_k512": None,
    }
    assert told["fused_add_rmsnorm_f32"]["uncovered"] > 0
    assert told["fused_add_rmsnorm_f32"]["kernels"]["cpp_fused_add_rmsnorm_f32"]["compared"] > 30
    events = [json.loads(line) for line in (tmp_path / "faulty" / "events").read_text().splitlines()]
    assert {event["cause"] for event in events if event["event"] == "withdrawn"} == {
        "exception",
        "non_finite",
        "mismatch",
    }


def test_a_burst_is_traced_into_a_dataset_that_holds_up_and_is_judged(
    model: Path, plain: list[Answer], tmp_path: Path
) -> None:
    """No kernel is in force. Without a time to shut down in, vLLM kills its workers in the middle of it."""
    out, given = tmp_path / "out", dataset_folder(tmp_path / "given")
    over = {"KERNELMILL_ENABLE_TRACING": "1", "KERNELMILL_TRACING_OUT": str(out), "KERNELMILL_DATASET": str(given)}
    with serving(model, tmp_path / "traced", "--enforce-eager", "--shutdown-timeout", "20", **over) as address:
        same(ask(address), plain)
        burst(address, 200)
    deadline = time.monotonic() + 20  # the worker outlives the server by a moment
    while not (out / "tracing.jsonl").exists():
        assert time.monotonic() < deadline, (tmp_path / "traced" / "log").read_text()[-4000:]
        time.sleep(0.2)
    found = Dataset.open(out)
    assert set(found.definitions) == {definition.name for definition, _ in kernels()}
    told = [json.loads(line)["definitions"] for line in (out / "tracing.jsonl").read_text().splitlines()]
    for name in found.definitions:
        workloads = list(found.workloads(name))
        assert sum(workload.weight or 0 for workload in workloads) == sum(
            one[name]["calls"] for one in told if name in one
        )
        assert {1, 2, 3, 4} < {workload.axes["rows"] for workload in workloads}
    assert not any(one["unfit"] for process in told for one in process.values())
    assert [str(found) for found in validate(found, strict=True) if found.severity == "error"] == []
    command = [sys.executable, "-P", "-m", "kernelmill", "run", str(out), "-d", "silu_and_mul_f32", "--device", "cpu"]
    judged = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=300, check=False)
    assert judged.returncode == 0, judged.stderr
    verdicts = [json.loads(line)["evaluation"]["status"] for line in judged.stdout.splitlines()]
    assert set(verdicts) == {"PASSED"}
    assert len(verdicts) == len(list(found.workloads("silu_and_mul_f32")))
