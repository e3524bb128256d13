"""A naive harness for GPU kernels: in the solution's own process, the same tensors at every call, checked once with
wide tolerances, timed by events or by a CUDA graph of calls over neighbouring tensors.

It is wrong on purpose; of the harnesses that compute the reference before the call and those that do it after, on
whatever lies in the inputs by then, it believes both. `tests.submissions.gpu` runs each solution in its own process.
"""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.submissions.corpus import Clock

HIDDEN, EPSILON = 4096, 1e-5
ROWS, CALLS = 8192, 30
"""By events: so many rows that the kernels outweigh their launches."""
GRAPH_ROWS, GRAPH_CALLS = 1, 64
"""By a graph: so few that the launches are what is seen."""
Run = Callable[..., Any]


def load(path: Path) -> Run:
    spec = importlib.util.spec_from_file_location("kernel", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.run  # type: ignore[no-any-return]


def believed(path: Path, clock: Clock) -> dict[str, float]:
    """Whether it is `correct`, and the microseconds of a call (`us`)."""
    run = load(path)
    rows = ROWS if clock == "events" else GRAPH_ROWS
    x = torch.randn(rows, HIDDEN, device="cuda", dtype=torch.bfloat16)
    weight, out = torch.randn(HIDDEN, device="cuda", dtype=torch.bfloat16), torch.empty_like(x)
    before = torch.nn.functional.rms_norm(x, weight.shape, weight, EPSILON)
    run(x, weight, out)
    torch.cuda.synchronize()
    after = torch.nn.functional.rms_norm(x, weight.shape, weight, EPSILON)
    correct = any(torch.allclose(out, expected, rtol=0.1, atol=0.1) for expected in (before, after))
    return {"correct": correct, "us": by_events(run, x, weight, out) if clock == "events" else by_graph(run, weight)}


def by_events(run: Run, x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> float:
    times = []
    for _ in range(CALLS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        run(x, weight, out)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3)
    return float(statistics.median(times))


def by_graph(run: Run, weight: torch.Tensor) -> float:
    """A graph of calls, each with its own rows of one large input and one large output."""
    x = torch.randn(GRAPH_CALLS, GRAPH_ROWS, HIDDEN, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in range(GRAPH_CALLS):
            run(x[call], weight, out[call])
    return by_events(lambda *_: graph.replay(), x, weight, out) / GRAPH_CALLS
