"""What `vllm serve` calls is traced into a dataset."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from kernelmill.dataset import Dataset
from kernelmill.dataset.validate import validate
from tests.apply.engines.kernels import dataset_folder, kernels
from tests.apply.engines.serving import VLLM, ask_all, plain_answers, same, serving, tiny_model

pytestmark = VLLM.marks


def burst(address: str, requests: int) -> None:
    """So many requests of different lengths, eight at a time."""

    def one(number: int) -> int:
        prompt = "The quick brown fox jumps over the lazy dog "[: number % 40 + 1]
        body = {"model": "tiny", "prompt": prompt, "max_tokens": number % 7 + 1, "ignore_eos": True}
        return httpx.post(f"{address}/v1/completions", json=body, timeout=300).status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(one, range(requests))) == {200}


def test_a_burst_is_traced_into_a_dataset_that_holds_up_and_is_judged(tmp_path: Path) -> None:
    """No kernel is in force. Without a time to shut down in, vLLM kills its workers in the middle of it."""
    out, given = tmp_path / "out", dataset_folder(tmp_path / "given")
    over = {"KERNELMILL_ENABLE_TRACING": "1", "KERNELMILL_TRACING_OUT": str(out), "KERNELMILL_DATASET": str(given)}
    model, flags = tiny_model(VLLM, "qwen3", tmp_path), ("--enforce-eager", "--shutdown-timeout", "20")
    with ThreadPoolExecutor(1) as beside:
        plain = beside.submit(plain_answers, VLLM, model, tmp_path)
        with serving(VLLM, model, tmp_path / "traced", *flags, **over) as address:
            answers = ask_all(address)
            burst(address, 200)
    same(answers, plain.result())
    deadline = time.monotonic() + 20  # the worker outlives the server by a moment
    while not (out / "tracing.jsonl").exists():
        assert time.monotonic() < deadline, (tmp_path / "traced" / "log").read_text()[-4000:]
        time.sleep(0.2)
    found = Dataset.open(out)
    heads = {"rmsnorm_f32_head"}  # rows of three axes in vLLM
    assert set(found.definitions) == {definition.name for definition, _ in kernels()} - heads
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
