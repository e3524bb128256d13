"""What judging costs: starting a worker, an empty call, and the wall time around each judged call.

Run on an otherwise idle machine: `python -m benchmarks.judge_cost`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from kernelmill.dataset import Dataset
from kernelmill.dataset.paths import default_path
from kernelmill.evaluator import JudgeOptions, evaluate
from kernelmill.trace_schema import InputSpec, RandomInput, Solution, Trace, Workload

DEFINITION = "rmsnorm_h4096"
ROWS = (1, 64, 1024)
OPTIONS = JudgeOptions(sessions=1, pairs=40, pairs_min=40)


def workload(rows: int) -> Workload:
    inputs: dict[str, InputSpec] = {"hidden_states": RandomInput(), "weight": RandomInput()}
    return Workload(uuid=f"rows-{rows}", axes={"batch_size": rows}, inputs=inputs)


def timed(solution: Solution, dataset: Dataset, rows: list[int]) -> Iterator[tuple[Trace, float]]:
    """Traces with the wall time since the one before."""
    start = time.perf_counter()
    definition = dataset.definitions[DEFINITION]
    for trace in evaluate(definition, solution, [workload(n) for n in rows], dataset=dataset, options=OPTIONS):
        now = time.perf_counter()
        yield trace, now - start
        start = now


def main() -> None:
    dataset = Dataset.open(default_path())
    solution = next(s for s in dataset.solutions(DEFINITION) if s.author != "baseline")
    list(timed(solution, dataset, [1]))  # build, so that it is not counted
    calls = 2 * (OPTIONS.pairs + OPTIONS.warmups)
    print(f"{DEFINITION}, {solution.name}; {calls} calls a workload (solution and baseline)")
    print(f"{'rows':>6} {'solution us':>12} {'empty call us':>14} {'wall a call ms':>15} {'of it judging':>14}")
    first = None
    for trace, wall in timed(solution, dataset, [ROWS[0], *ROWS]):
        if first is None:
            first = wall
            continue
        assert trace.evaluation is not None
        times, clocks = trace.evaluation.statistics, trace.evaluation.environment.clocks
        assert times is not None
        assert times.median_ms is not None
        assert times.baseline_median_ms is not None
        spent = (times.median_ms + times.baseline_median_ms) / 2
        share = 1 - spent / (1e3 * wall / calls)
        null_us = (clocks or {}).get("null_call_us")
        rows = trace.workload.axes["batch_size"]
        print(f"{rows:>6} {1e3 * times.median_ms:>12.1f} {null_us!s:>14} {1e3 * wall / calls:>15.2f} {share:>14.0%}")
    print(f"start of a sitting (reference, solution and baseline workers, first workload): {first:.1f} s")


if __name__ == "__main__":
    main()
