"""The same work judged here and by the public package `flashinfer-bench`, one after the other on the same GPU.

`python -m benchmarks.evaluator_vs_public [--repeats 5] [--save DIR]` on a host with an NVIDIA GPU, flashinfer-python
and flashinfer-bench 0.1.2. Prints wall time, timed calls, and how far repeats of the same latency and of the same ratio
lie apart. `--save` keeps the traces of the last repeat as a dataset's `traces` folder.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from kernelmill.dataset import Dataset
from kernelmill.dataset.paths import default_path
from kernelmill.evaluator import JudgeOptions
from kernelmill.evaluator.burst.board import plan
from kernelmill.evaluator.case import make_case
from kernelmill.evaluator.demo import copy_dataset
from kernelmill.evaluator.devices import Device, open_device
from kernelmill.evaluator.plan import Job, Selection, jobs
from kernelmill.evaluator.run import Forge, find_baseline
from kernelmill.evaluator.sitting import Built
from kernelmill.trace_schema import Trace

DEFINITIONS = (
    "rmsnorm_h4096",
    "fused_add_rmsnorm_h4096",
    "silu_and_mul_i14336",
    "gemm_bf16_n4096_k4096",
    "log_softmax_v128256",
)
WORKLOADS = 8
SOLUTIONS = 4
Key = tuple[str, str, str]
"""Definition, solution, workload."""


class Result(NamedTuple):
    """One judging of everything."""

    seconds: float
    start_s: float
    lending_s: float
    latency_ms: Mapping[Key, float]
    ratio: Mapping[Key, float]
    verdicts: Mapping[str, int]


def selected(dataset: Dataset, device: Device) -> list[Job]:
    """SOLUTIONS solutions for this device on WORKLOADS workloads of each definition, spread over its sizes."""
    chosen = []
    for job in jobs(dataset, Selection(definitions=DEFINITIONS), device):
        step = max(1, len(job.workloads) // WORKLOADS)
        workloads = list(job.workloads)[::step][:WORKLOADS]
        chosen.append(Job(job.definition, list(job.solutions)[:SOLUTIONS], workloads, frozenset()))
    return chosen


def judged_here(dataset: Dataset, device: Device, todo: Sequence[Job]) -> tuple[Result, list[Trace]]:
    forge = Forge(JudgeOptions(), device)
    built = {solution.name: forge.build(solution) for job in todo for solution in job.solutions}
    traces: list[Trace] = []
    began, start_s, lending_s = time.monotonic(), 0.0, 0.0
    for job in todo:
        sitting: Any = forge.sitting(job.definition, find_baseline(job.definition, dataset, device), dataset)
        pairs: list[tuple[Built, Any]] = [(built[s.name], w) for w in job.workloads for s in job.solutions]
        traces += list(sitting.traces(pairs))
        start_s += sitting.start_s
        lending_s += sitting.lending_s
    seconds = time.monotonic() - began
    timed = [(_key(trace), trace.evaluation.statistics) for trace in traces if trace.evaluation]
    latency = {key: found.median_ms for key, found in timed if found and found.median_ms}
    ratio = {key: found.ratio for key, found in timed if found and found.ratio}
    return Result(seconds, start_s, lending_s, latency, ratio, _count(t.evaluation for t in traces)), traces


def judged_there(folder: Path) -> Result:
    """By the public package with its own defaults, its worker processes and its own measure of a call."""
    bench, data = import_module("flashinfer_bench.bench"), import_module("flashinfer_bench.data")
    traces = data.TraceSet.from_path(str(folder))
    benchmark = bench.Benchmark(traces, bench.BenchmarkConfig())
    began = time.monotonic()
    result = benchmark.run_all(False)
    seconds = time.monotonic() - began
    close = getattr(benchmark, "close", None)
    if close:
        close()
    found = [trace for several in result.traces.values() for trace in several if trace.evaluation]
    timed = [(_key(t), t.evaluation.performance) for t in found if t.evaluation.performance]
    latency = {key: float(p.latency_ms) for key, p in timed}
    ratio = {key: float(p.speedup_factor) for key, p in timed}
    return Result(seconds, 0.0, 0.0, latency, ratio, _count(t.evaluation for t in found))


def _key(trace: Any) -> Key:
    return trace.definition, trace.solution or "", trace.workload.uuid


def _count(evaluations: Iterator[Any] | Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for evaluation in evaluations:
        status = getattr(evaluation, "effective_verdict", None) or evaluation.status
        counts[status.value] = counts.get(status.value, 0) + 1
    return counts


def public_copy(dataset: Dataset, todo: Sequence[Job], folder: Path) -> None:
    """Only what is judged, in the public layout."""
    names = {solution.name for job in todo for solution in job.solutions}
    copied = copy_dataset(default_path(), folder)
    for file in (copied.root / "solutions").rglob("*.json"):
        if file.stem not in names:
            file.unlink()
    wanted = {job.definition.name: job for job in todo}
    for file in (copied.root / "definitions").rglob("*.json"):
        if file.stem not in wanted:
            file.unlink()
    for file in (copied.root / "workloads").rglob("*.jsonl"):
        if file.stem not in wanted:
            file.unlink()
            continue
        job = wanted[file.stem]
        lines = [
            Trace(definition=job.definition.name, workload=w).model_dump_json(exclude_unset=True) for w in job.workloads
        ]
        file.write_text("\n".join(lines) + "\n")


def spread(values: Sequence[Mapping[Key, float]]) -> str:
    """How far repeats of the same number lie apart: (largest - smallest) / median, over all keys."""
    keys = [key for key in values[0] if all(key in one for one in values)]
    apart = sorted(
        (max(row) - min(row)) / statistics.median(row) for row in ([one[key] for one in values] for key in keys)
    )
    if not apart or len(values) < 2:
        return "-"
    return (
        f"median {apart[len(apart) // 2]:.1%}, 90th percentile {apart[int(0.9 * len(apart))]:.1%}, most {apart[-1]:.1%}"
    )


def timed_calls(todo: Sequence[Job], dataset: Dataset, device: Device) -> int:
    """The fewest timed calls of one evaluation here."""
    options = JudgeOptions()
    rounds = options.sessions * options.burst_pairs_min
    cases = (make_case(job.definition, workload, dataset) for job in todo for workload in job.workloads)
    return min(rounds * sum(plan(case, device).lengths) for case in cases)


def report(name: str, results: Sequence[Result]) -> None:
    count = len(results[0].latency_ms)
    wall = statistics.median(result.seconds - result.start_s for result in results)
    start = statistics.median(result.start_s for result in results)
    print(f"{name}: {results[-1].verdicts}")
    print(f"  wall {wall:.1f} s ({wall / max(1, count):.3f} s an evaluation), and {start:.1f} s to start and compile")
    print(
        f"  of it {statistics.median(result.lending_s for result in results):.1f} s to lend memory and capture bursts"
    )
    print(f"  spread of {len(results)} repeats: latency {spread([r.latency_ms for r in results])}")
    print(f"  {'':>22} ratio   {spread([r.ratio for r in results])}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--save", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        dataset = copy_dataset(default_path(), Path(folder) / "ours")
        device = open_device("cuda")
        todo = selected(dataset, device)
        public_copy(dataset, todo, Path(folder) / "theirs")
        print(f"{device.model}: {[(job.definition.name, len(job.solutions), len(job.workloads)) for job in todo]}")
        print(
            f"timed calls an evaluation: here at least {timed_calls(todo, dataset, device)}, there 3 x 50", flush=True
        )
        here: list[Result] = []
        for _ in range(arguments.repeats):
            result, traces = judged_here(dataset, device, todo)
            here.append(result)
        report("here", here)
        if arguments.save:
            for trace in traces:
                dataset.append(trace)
            shutil.copytree(dataset.root / "traces", arguments.save, dirs_exist_ok=True)
        report("flashinfer-bench", [judged_there(Path(folder) / "theirs") for _ in range(arguments.repeats)])


if __name__ == "__main__":
    main()
