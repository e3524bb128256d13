"""What the judge says a call takes, beside the same bursts played without sandbox or judge, and beside CUPTI.

`python -m benchmarks.burst_outside` on a host with an NVIDIA GPU. A row is a shipped Python or Triton solution on one
workload: the judge's median; the slope between the same two CUDA graphs over as many slots and as many copies of the
static inputs, in this process, by CUDA events; the sum of the durations that CUPTI (torch's profiler) gives the kernels
of the long graph, per call.
"""

from __future__ import annotations

import importlib.util
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kernelmill.dataset import Dataset
from kernelmill.dataset.paths import default_path
from kernelmill.evaluator import JudgeOptions
from kernelmill.evaluator.burst.board import Plan, plan
from kernelmill.evaluator.case import Tensor, make_case
from kernelmill.evaluator.devices import Device, open_device
from kernelmill.evaluator.run import Forge, find_baseline
from kernelmill.trace_schema import Definition, Solution, Workload

SOLUTIONS = (
    "triton_row_fused_add_rmsnorm_h4096",
    "triton_split_log_softmax_v128256",
    "triton_tile_gemm_bf16_n4096_k4096",
    "flashinfer_rmsnorm_h4096",
)
WORKLOADS = 3
ROUNDS = 30
AHEAD_CYCLES = 4_000_000
"""So long the device waits while the host hands over the graph: else that is timed, and grows with its length."""
Call = Callable[[], object]


class Row(NamedTuple):
    """Microseconds of a call, thrice."""

    name: str
    judge: float
    outside: float
    cupti: float


def load(solution: Solution, folder: Path) -> Callable[..., Any]:
    """Its entry point, in this process."""
    for source in solution.sources:
        (folder / source.path).write_text(source.content)
    file, symbol = solution.spec.entry_point.split("::")
    spec = importlib.util.spec_from_file_location(solution.name, folder / file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, symbol)  # type: ignore[no-any-return]


def bound_calls(run: Callable[..., Any], planned: Plan, device: Device) -> list[Call]:
    """One call a slot, each with dynamic inputs and outputs of its own and its turn's copy of the others."""
    import torch

    def slots(tensor: Tensor, count: int) -> list[torch.Tensor]:
        values = torch.randn(count, *tensor.shape, device=device.name) * 0.1
        return list(values.to(getattr(torch, tensor.dtype)))

    case, pools = planned.case, {}
    for tensor in (*case.tensors, *case.passed_outputs):
        pools[tensor.name] = slots(tensor, planned.copies if planned.is_fixed(tensor) else planned.slots)

    def bind(slot: int) -> Call:
        given = [pools[a.name][slot % len(pools[a.name])] if isinstance(a, Tensor) else a for a in case.inputs]
        outputs = [pools[tensor.name][slot] for tensor in case.passed_outputs]
        return lambda: run(*given, *outputs)

    return [bind(slot) for slot in range(planned.slots)]


def captured(calls: Sequence[Call]) -> Any:
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    graph.replay()
    return graph


def slope_us(short: Any, long: Any, calls: int, device: Device) -> float:
    """Median microseconds of a call, from `calls` more of them in the long graph."""
    import torch

    cache = torch.zeros(2 * device.l2_bytes // 8, dtype=torch.int64, device=device.name)

    def seconds(graph: Any) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        cache.add_(1)
        torch.cuda.synchronize()
        torch.cuda._sleep(AHEAD_CYCLES)  # type: ignore[no-untyped-call]
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) * 1e3

    return statistics.median((seconds(long) - seconds(short)) / calls for _ in range(ROUNDS))


def cupti_us(graph: Any, calls: int) -> float:
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as found:
        graph.replay()
        torch.cuda.synchronize()
    events = found.events() or ()
    return float(sum(event.device_time_total for event in events)) / calls


def graphs(
    solution: Solution, definition: Definition, workload: Workload, dataset: Dataset, device: Device
) -> tuple[Any, Any, int, int]:
    """A short and a long graph with the number of calls in each."""
    import torch

    planned = plan(make_case(definition, workload, dataset), device)
    with tempfile.TemporaryDirectory() as folder:
        calls = bound_calls(load(solution, Path(folder)), planned, device)
        calls[0]()
        torch.cuda.synchronize()
        _, short, long = planned.lengths
        return captured(calls[:short]), captured(calls[:long]), short, long


def judged(solution: Solution, definition: Definition, workloads: Sequence[Workload], dataset: Dataset) -> list[float]:
    device = open_device("cuda")
    try:
        forge = Forge(JudgeOptions(), device)
        built = forge.build(solution)
        sitting = forge.sitting(definition, find_baseline(definition, dataset, device), dataset)
        traces = list(sitting.traces([(built, workload) for workload in workloads]))
    finally:
        device.close()
    found = [trace.evaluation.statistics for trace in traces if trace.evaluation and trace.evaluation.statistics]
    return [(statistic.median_ms or 0.0) * 1e3 for statistic in found]


def main() -> None:
    dataset = Dataset.open(default_path())
    todo, judge = [], []
    for name in SOLUTIONS:
        solution = dataset.solution(name)
        definition = dataset.definition(solution.definition)
        every = list(dataset.workloads(definition))
        workloads = every[:: max(1, len(every) // WORKLOADS)][:WORKLOADS]
        judge += judged(solution, definition, workloads, dataset)
        todo += [(solution, definition, workload) for workload in workloads]
    device = open_device("cuda")
    outside = []
    for one in todo:
        few, many, short, long = graphs(*one, dataset, device)
        outside.append(slope_us(few, many, long - short, device))
    cupti = []  # last of all: once its tracing was on, launches take longer for the rest of a process's life
    for one in todo:
        _, many, _, long = graphs(*one, dataset, device)
        cupti.append(cupti_us(many, long))
    device.close()
    report([Row(f"{s.name} {dict(w.axes)}", *us) for (s, _, w), *us in zip(todo, judge, outside, cupti, strict=True)])


def report(rows: Sequence[Row]) -> None:
    print(f"{'solution, axes':<60} {'judge us':>9} {'outside':>9} {'CUPTI':>9} {'judge/outside':>14}")
    for row in rows:
        ratio = row.judge / row.outside
        print(f"{row.name:<60} {row.judge:9.2f} {row.outside:9.2f} {row.cupti:9.2f} {ratio:14.3f}")
    apart = sorted(abs(row.judge / row.outside - 1) for row in rows)
    print(f"judge and outside lie {statistics.median(apart):.1%} apart in the median, {apart[-1]:.1%} at most")


if __name__ == "__main__":
    main()
