"""The same work judged here and by the public package `flashinfer-bench`, one after the other on the same GPU.

`python -m benchmarks.evaluator_vs_public [--repeats 5] [--definition NAME …] [--workloads 8] [--save DIR]` on a host
with an NVIDIA GPU, flashinfer-python and flashinfer-bench 0.1.2. Prints wall time, the GPU's share of it (NVML's
utilisation, sampled), timed calls, and how far repeats of the same latency and of the same ratio lie apart. `--save`
keeps the traces of the last repeat as a dataset's `traces` folder.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import threading
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
SAMPLE_S = 0.2
Key = tuple[str, str, str]
"""Definition, solution, workload."""


class Result(NamedTuple):
    """One judging of everything."""

    seconds: float
    busy: float
    """The part of these seconds in which the GPU ran something; NaN where NVML does not say."""
    start_s: float
    lending_s: float
    latency_ms: Mapping[Key, float]
    ratio: Mapping[Key, float]
    verdicts: Mapping[str, int]


class Utilisation:
    """Samples how busy the GPU is, from a thread, while its context lasts."""

    def __init__(self) -> None:
        self._samples: list[int] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Utilisation:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def mean(self) -> float:
        return statistics.mean(self._samples) / 100 if self._samples else float("nan")

    def _sample(self) -> None:
        try:
            nvml = import_module("pynvml")
        except ImportError:
            return
        nvml.nvmlInit()
        gpu = nvml.nvmlDeviceGetHandleByIndex(0)
        while not self._over.wait(SAMPLE_S):
            self._samples.append(nvml.nvmlDeviceGetUtilizationRates(gpu).gpu)


def selected(dataset: Dataset, device: Device, definitions: Sequence[str], count: int) -> list[Job]:
    """SOLUTIONS solutions for this device on `count` workloads of each definition, spread over its sizes."""
    chosen = []
    for job in jobs(dataset, Selection(definitions=tuple(definitions)), device):
        step = max(1, len(job.workloads) // count)
        workloads = list(job.workloads)[::step][:count]
        chosen.append(Job(job.definition, list(job.solutions)[:SOLUTIONS], workloads, frozenset()))
    return chosen


def judged_here(dataset: Dataset, device: Device, todo: Sequence[Job]) -> tuple[Result, list[Trace]]:
    forge = Forge(JudgeOptions(), device)
    built = {solution.name: forge.build(solution) for job in todo for solution in job.solutions}
    traces: list[Trace] = []
    began, start_s, lending_s = time.monotonic(), 0.0, 0.0
    with Utilisation() as utilisation:
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
    counts = _count(t.evaluation for t in traces)
    return Result(seconds, utilisation.mean, start_s, lending_s, latency, ratio, counts), traces


def judged_there(folder: Path) -> Result:
    """By the public package with its own defaults, its worker processes and its own measure of a call."""
    bench, data = import_module("flashinfer_bench.bench"), import_module("flashinfer_bench.data")
    traces = data.TraceSet.from_path(str(folder))
    benchmark = bench.Benchmark(traces, bench.BenchmarkConfig())
    began = time.monotonic()
    with Utilisation() as utilisation:
        result = benchmark.run_all(False)
    seconds = time.monotonic() - began
    close = getattr(benchmark, "close", None)
    if close:
        close()
    found = [trace for several in result.traces.values() for trace in several if trace.evaluation]
    timed = [(_key(t), t.evaluation.performance) for t in found if t.evaluation.performance]
    latency = {key: float(p.latency_ms) for key, p in timed}
    ratio = {key: float(p.speedup_factor) for key, p in timed}
    return Result(seconds, utilisation.mean, 0.0, 0.0, latency, ratio, _count(t.evaluation for t in found))


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
    rounds = options.sessions * options.rounds_min
    cases = (make_case(job.definition, workload, dataset) for job in todo for workload in job.workloads)
    return min(rounds * sum(plan(case, device).lengths) for case in cases)


def report(name: str, results: Sequence[Result]) -> None:
    count = len(results[0].latency_ms)
    wall = statistics.median(result.seconds - result.start_s for result in results)
    start = statistics.median(result.start_s for result in results)
    print(f"{name}: {results[-1].verdicts}")
    print(f"  wall {wall:.1f} s ({wall / max(1, count):.3f} s an evaluation), and {start:.1f} s to start and compile")
    busy = statistics.median(result.busy * result.seconds for result in results)
    print(f"  the GPU ran something for {busy:.1f} s ({busy / max(1, count):.3f} s an evaluation), the start included")
    lending = statistics.median(result.lending_s for result in results)
    print(f"  {lending:.1f} s of the wall to lend memory and capture bursts")
    print(f"  spread of {len(results)} repeats: latency {spread([r.latency_ms for r in results])}")
    print(f"  {'':>22} ratio   {spread([r.ratio for r in results])}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--definition", action="append")
    parser.add_argument("--workloads", type=int, default=WORKLOADS)
    parser.add_argument("--save", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        dataset = copy_dataset(default_path(), Path(folder) / "ours")
        device = open_device("cuda")
        todo = selected(dataset, device, arguments.definition or DEFINITIONS, arguments.workloads)
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
