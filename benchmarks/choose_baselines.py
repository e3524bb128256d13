"""Which of torch's ways is the fastest here, by our own judge? Each `torch` candidate against the shipped baseline.

`python -m benchmarks.choose_baselines [-d DEFINITION]…`. A candidate whose speedup has a lower bound above 1 should
be the baseline instead.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from kernelmill.dataset.paths import default_path
from kernelmill.evaluator import JudgeOptions
from kernelmill.evaluator.demo import copy_dataset
from kernelmill.evaluator.plan import Selection, jobs
from kernelmill.evaluator.run import Forge
from kernelmill.evaluator.runner import Runner
from kernelmill.evaluator.scoring import score


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-d", "--definition", action="append", default=[])
    wanted = parser.parse_args().definition
    with tempfile.TemporaryDirectory() as folder:
        dataset = copy_dataset(default_path(), Path(folder) / "dataset")
        todo = list(jobs(dataset, Selection(definitions=wanted, authors=("baseline", "torch"))))
        runner = Runner(dataset, Forge(JudgeOptions()), save=True)
        for event in runner.run(todo):
            if event.trace is None and event.kind != "building":
                print(event.text, flush=True)
        for job in todo:
            traces = list(dataset.traces(definition=job.definition))
            model = traces[0].evaluation.environment.hardware if traces and traces[0].evaluation else ""
            print(f"\n{job.definition.name}")
            for entry in score(job.definition, list(job.workloads), traces, device_model=model).entries:
                span = f"{entry.speedup.point:.2f} ({entry.speedup.lo:.2f}-{entry.speedup.hi:.2f})"
                print(f"  {entry.rank!s:>4} {entry.solution:<60} {span:<22} geomean {entry.geomean or 0:.2f}")


if __name__ == "__main__":
    main()
