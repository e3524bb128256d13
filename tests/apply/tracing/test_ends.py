"""However a process ends, what it has seen is in the dataset."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kernelmill.apply.arming.exec import environment
from kernelmill.evaluator.sandbox import probe
from kernelmill.trace_schema import Trace
from tests.apply.kernels import NORM
from tests.apply.tracing.calls import faults, source, weights, workloads

HEAD = """\
import os, signal, sys, threading, time
import torch
from kernelmill.apply import apply, enable_tracing

def call(rows):
    apply("rmsnorm_h8", args=(torch.ones(rows, 8), torch.ones(8)), fallback=lambda x, w: x)

"""
ENDS = {
    "at its end": ("tracing = enable_tracing()\nfor rows in range(1, 8): call(rows)\n", 0, 7),
    "by SystemExit": ("tracing = enable_tracing()\ncall(3)\nsys.exit(5)\n", 5, 1),
    "by an exception": ("tracing = enable_tracing()\ncall(3)\nraise KeyError\n", 1, 1),
    "by SIGTERM": (
        "tracing = enable_tracing()\ncall(3)\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(60)\n",
        -signal.SIGTERM,
        1,
    ),
    "by SIGTERM with a handler of its own": (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\ntracing = enable_tracing()\ncall(3)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(60)\n",
        9,
        1,
    ),
    "off the main thread": (
        "def work():\n    global tracing\n    tracing = enable_tracing()\n    call(3)\n"
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\ncall(4)\n",
        0,
        2,
    ),
    "by SIGKILL, once it was written": (
        "os.environ['KERNELMILL_TRACING_EVERY_S'] = '0.1'\ntracing = enable_tracing()\ncall(3)\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.05)\nos.kill(os.getpid(), signal.SIGKILL)\n",
        -signal.SIGKILL,
        1,
    ),
    "after forking workers": (
        "tracing = enable_tracing()\ncall(3)\ntracing.tracer.writer.write()\nimport multiprocessing, warnings\n"
        "warnings.simplefilter('ignore')\ncontext = multiprocessing.get_context('fork')\n"
        "children = [context.Process(target=call, args=(rows,)) for rows in (3, 5)]\n"
        "for child in children: child.start()\nfor child in children: child.join()\ncall(3)\n",
        0,
        4,
    ),
}


@pytest.fixture
def given(tmp_path: Path) -> dict[str, str]:
    over = {
        "KERNELMILL_DATASET": str(source(tmp_path / "source")),
        "KERNELMILL_TRACING_OUT": str(tmp_path / "out"),
        "KERNELMILL_CACHE": str(tmp_path / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    return {**os.environ, **over}


@pytest.mark.parametrize("end", ENDS)
def test_a_process_leaves_what_it_has_seen(end: str, given: dict[str, str], tmp_path: Path) -> None:
    code, status, calls = ENDS[end]
    file = tmp_path / "out" / "workloads" / NORM.op_type / f"{NORM.name}.jsonl"
    done = subprocess.run(
        [sys.executable, "-P", "-c", HEAD + code, str(file)],
        env=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert weights(tmp_path / "out", NORM) == calls, done.stderr
    assert faults(tmp_path / "out") == []


SCRIPT = """\
import torch
import torch.nn.functional as F

weight = torch.rand(8)
with torch.no_grad():
    for rows in (1, 2, 3, 3):
        F.rms_norm(torch.randn(2, rows, 8), (8,), weight, 1e-5)
"""


@pytest.mark.parametrize("switch", ["exec --trace", "KERNELMILL_ENABLE_TRACING", "FIB_ENABLE_TRACING"])
def test_an_unmodified_program_is_traced(switch: str, given: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT]
    if switch == "exec --trace":
        exec_ = [sys.executable, "-P", "-m", "kernelmill", "apply", "exec", "--trace", str(tmp_path / "out"), "--"]
        command = [*exec_, *command]
    elif switch.startswith("KERNELMILL"):
        given = environment(given, trace=str(tmp_path / "out"))
    else:
        del given["KERNELMILL_DATASET"], given["KERNELMILL_TRACING_OUT"]
        given |= {switch: "1", "FIB_DATASET_PATH": str(tmp_path / "source")}
        command = [sys.executable, "-P", "-c", "import kernelmill\n" + SCRIPT]
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "kernelmill: 4 calls traced into" in done.stderr
    out = tmp_path / ("source" if switch.startswith("FIB") else "out")
    found = {workload.axes["batch_size"]: workload.weight for workload in workloads(out, NORM)}
    assert found == {2: 1.0, 4: 1.0, 6: 2.0}
    assert faults(out) == []


@pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")
def test_what_was_traced_is_judged(given: dict[str, str], tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    ours = [sys.executable, "-P", "-m", "kernelmill"]
    steps = (
        [*ours, "apply", "exec", "--trace", out, "--", sys.executable, "-c", SCRIPT],
        [*ours, "validate", out, "--strict"],
        [*ours, "run", out, "--device", "cpu", "--no-save", "--json"],
    )
    for step in steps:
        done = subprocess.run(step, env=given, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
    traces = [Trace.model_validate(json.loads(line)) for line in done.stdout.splitlines()]
    assert len(traces) == 3
    assert all(trace.passed for trace in traces)
