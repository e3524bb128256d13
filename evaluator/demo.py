"""`make demo`: judge the shipped dataset's demo slice here, print the leaderboard, write a report.

Works on a copy, so that the shipped dataset stays as it is. The only place that may fall back to no sandbox, since what
it judges is shipped code; it says so in a banner, and every trace says so too.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from kernelmill.dataset import Dataset
from kernelmill.dataset.paths import default_path
from kernelmill.evaluator.commands import show
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.evaluator.plan import Job, Selection, jobs
from kernelmill.evaluator.report.commands import report
from kernelmill.evaluator.run import Forge, is_for
from kernelmill.evaluator.runner import Runner
from kernelmill.evaluator.sandbox import probe

SLICE = "demo.json"
"""Beside the shipped dataset's folders: definition -> uuids of its demo workloads."""
AUTHORS = ("baseline", "kernelmill")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m kernelmill.evaluator.demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder to write to")
    out: Path = parser.parse_args(arguments).out
    start = time.monotonic()
    dataset = copy_dataset(default_path(), out / "dataset")
    todo = demo_jobs(dataset, json.loads((default_path() / SLICE).read_text(encoding="utf-8")))
    sandbox = choose_sandbox()
    runner = Runner(dataset, Forge(JudgeOptions(sandbox=sandbox)), save=True)
    show(runner, todo, as_json=False)
    report(out / "dataset", html=out / "report.html", accept_unsandboxed=sandbox == "none")
    print(f"{len(todo)} definitions judged in {time.monotonic() - start:.0f} s; {out / 'report.html'}", file=sys.stderr)
    return runner.exit_code


def copy_dataset(source: Path, target: Path) -> Dataset:
    """A fresh copy without traces."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=lambda folder, _: {"traces"} if Path(folder) == source else set())
    return Dataset.open(target)


def demo_jobs(dataset: Dataset, uuids: dict[str, list[str]]) -> list[Job]:
    """One job a definition of the slice, on its demo workloads only, with what is meant for a CPU."""
    chosen = [uuid for several in uuids.values() for uuid in several]
    found = jobs(dataset, Selection(definitions=list(uuids), authors=AUTHORS, workloads=chosen))
    return [replace(job, solutions=[one for one in job.solutions if is_for(one, "cpu")]) for job in found]


def choose_sandbox() -> Literal["bwrap", "none"]:
    problem = probe()
    if problem is None:
        return "bwrap"
    print(
        f"\n*** NO SANDBOX: {problem}.\n*** The demo judges shipped code only, so it goes on without.\n",
        file=sys.stderr,
    )
    return "none"


if __name__ == "__main__":
    sys.exit(main())
