"""What serve_vllm.py and serve_sglang.py share: start a server, ask it once with and once without our kernels."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

START_S = 600.0
SETTLE_S = 6.0
"""Counters are written every 5 s."""
TOKENS = 32


def compare(command: list[str], environ: dict[str, str]) -> None:
    """Serves with the kernels that `kernelmill apply` has in force here and without, and prints what each said.

    `command` starts a server that answers OpenAI's completions; the address is put after it.
    The servers run one after the other, so what else the machine does then moves the speeds too.
    """
    with tempfile.TemporaryDirectory() as folder:
        on = {"KERNELMILL_ENABLE_APPLY": "1", "KERNELMILL_APPLY_METRICS": folder}
        for label, over in (("with", on), ("without", {"KERNELMILL_ENABLE_APPLY": ""})):
            text, tokens_a_second = served(command, {**environ, **over})
            print(f"{label:8} {tokens_a_second:7.1f} tokens/s  {text!r}", flush=True)
        print("what was substituted, and what was not:", flush=True)
        subprocess.run([sys.executable, "-m", "kernelmill", "apply", "explain", "--run", folder], check=True)


def served(command: list[str], environ: dict[str, str]) -> tuple[str, float]:
    """One server's answer and its speed: the best of three, after one request that warms it up."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    server = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", port],
        env={**os.environ, **environ},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait(server, f"http://127.0.0.1:{port}/health")
        seconds, text = [], ""
        for _ in range(4):
            start = time.perf_counter()
            text = ask(f"http://127.0.0.1:{port}/v1/completions")
            seconds.append(time.perf_counter() - start)
        time.sleep(SETTLE_S)
        return text, TOKENS / min(seconds[1:])
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait(60)


def wait(server: subprocess.Popen[bytes], address: str) -> None:
    deadline = time.monotonic() + START_S
    while server.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(address, timeout=5).close()
        except OSError:
            time.sleep(1)
        else:
            return
    raise SystemExit("the server did not start; its log is above")


def ask(address: str) -> str:
    body = {"model": "served", "prompt": "The quick brown fox", "max_tokens": TOKENS, "temperature": 0}
    request = urllib.request.Request(
        address, json.dumps(body | {"ignore_eos": True}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as reply:
        told: dict[str, Any] = json.load(reply)
    return str(told["choices"][0]["text"])


def engine(name: str) -> str:
    """A program of the engine's own environment: where this interpreter is, else on the PATH."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else name
