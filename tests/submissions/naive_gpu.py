"""A naive harness for GPU kernels: in this process, the same tensors at every call, checked once, timed by events.

`python -m tests.submissions.naive_gpu FILE` prints what it believes of the solution in FILE, as JSON.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
from pathlib import Path

import torch

ROWS, HIDDEN, CALLS = 512, 4096, 50


def load(path: Path) -> object:
    spec = importlib.util.spec_from_file_location("kernel", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(path: Path) -> None:
    x = torch.randn(ROWS, HIDDEN, device="cuda", dtype=torch.bfloat16)
    weight, out = torch.randn(HIDDEN, device="cuda", dtype=torch.bfloat16), torch.empty_like(x)
    expected = torch.nn.functional.rms_norm(x, weight.shape, weight, 1e-5)
    run = load(path).run  # type: ignore[attr-defined]
    run(x, weight, out)
    torch.cuda.synchronize()
    correct = torch.allclose(out, expected, rtol=1e-2, atol=1e-1)
    times = []
    for _ in range(CALLS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        run(x, weight, out)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3)
    print(json.dumps({"correct": correct, "us": statistics.median(times)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
