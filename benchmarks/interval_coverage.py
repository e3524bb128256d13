"""Are the intervals honest? Judge the demo slice again and again: how often does each hold the pooled ratio?

`python -m benchmarks.interval_coverage --runs 10 [-d DEFINITION]…` on an otherwise idle machine. Each run has fresh
workers and fresh inputs; the pooled ratio of a solution on a workload is the geometric mean over the runs.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from kernelmill.dataset.paths import default_path
from kernelmill.evaluator import JudgeOptions
from kernelmill.evaluator.demo import SLICE, copy_dataset, demo_jobs
from kernelmill.evaluator.run import Forge
from kernelmill.evaluator.runner import Runner


class Run(NamedTuple):
    """One evaluation's ratio and interval."""

    ratio: float
    low: float
    high: float


def collect(runs: int, wanted: list[str]) -> dict[tuple[str, str, str], list[Run]]:
    found: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    uuids = json.loads((default_path() / SLICE).read_text())
    uuids = {name: several for name, several in uuids.items() if not wanted or name in wanted}
    with tempfile.TemporaryDirectory() as folder:
        dataset = copy_dataset(default_path(), Path(folder) / "dataset")
        for number in range(runs):
            runner = Runner(dataset, Forge(JudgeOptions()), save=False)
            for event in runner.run(demo_jobs(dataset, uuids)):
                times = event.trace.evaluation.statistics if event.trace and event.trace.evaluation else None
                if event.trace and times and times.ratio and times.ratio_ci95 and times.ratio_ci95 != (1.0, 1.0):
                    key = (event.trace.definition, event.trace.solution or "", event.trace.workload.uuid)
                    found[key].append(Run(times.ratio, *times.ratio_ci95))
            print(f"run {number + 1} of {runs} done", flush=True)
    return found


def pooled(runs: list[Run]) -> float:
    return math.exp(sum(math.log(run.ratio) for run in runs) / len(runs))


def holding(runs: list[Run]) -> int:
    return sum(run.low <= pooled(runs) <= run.high for run in runs)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("-d", "--definition", action="append", default=[])
    arguments = parser.parse_args()
    found = collect(arguments.runs, arguments.definition)
    print(f"{'definition':<46} {'solution':<34} {'pooled':>7} {'min':>6} {'max':>6} {'width':>6} {'held':>6}")
    for (definition, solution, _), runs in sorted(found.items()):
        low, high = min(run.ratio for run in runs), max(run.ratio for run in runs)
        width = sorted(run.high / run.low for run in runs)[len(runs) // 2]
        held = f"{holding(runs)}/{len(runs)}"
        print(f"{definition:<46} {solution:<34} {pooled(runs):>7.2f} {low:>6.2f} {high:>6.2f} {width:>6.2f} {held:>6}")
    total, held_all = sum(map(len, found.values())), sum(map(holding, found.values()))
    short = sum(holding(runs) < 0.9 * len(runs) for runs in found.values())
    print(
        f"{held_all} of {total} intervals hold the pooled ratio; {short} of {len(found)} rows do in less than 9 of 10"
    )


if __name__ == "__main__":
    main()
