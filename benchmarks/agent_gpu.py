"""What the agent without a model makes of each definition: `python -m benchmarks.agent_gpu --device cuda:0`.

Works on a copy of the dataset, into which the full judgements go; prints one row a definition, and at the end on how
many op types the agent's best kernel beats the baseline. Started again with the same --out, it repeats no finished run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from kernelmill.agents import loop, session
from kernelmill.agents.budget import Limits
from kernelmill.agents.templates.families import spaces
from kernelmill.dataset import Dataset
from kernelmill.dataset.paths import default_path
from kernelmill.evaluator.devices import device_names
from kernelmill.trace_schema.errors import KernelMillError

ROW = "{:<46} {:<12} {:>8} {:>17} {:>7} {:>6}  {}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=Path("agent-bench"))
    parser.add_argument("--wall", type=float, default=120.0, help="seconds for each definition")
    parser.add_argument("-d", "--definition", action="append", default=[])
    asked = parser.parse_args()
    device = device_names(asked.device)[0]
    dataset = copied(asked.out / "dataset")
    kind = "cpu" if device == "cpu" else "cuda"
    print(ROW.format("definition", "op type", "speedup", "interval", "passed", "tried", "best"))
    beaten = set()
    for definition in dataset.definitions.values():
        if (asked.definition and definition.name not in asked.definition) or not spaces(definition, kind):
            continue
        plan = session.Plan(definition.name, limits=Limits(wall_s=asked.wall), device=device)
        try:
            result = session.start(plan, dataset, asked.out / "runs" / definition.name, quiet, save=True)
        except KernelMillError as error:
            print(f"{definition.name:<46} {error}", flush=True)
            continue
        print(row(definition.name, definition.op_type, result), flush=True)
        if result.improved:
            beaten.add(definition.op_type)
        (asked.out / f"{definition.name}.json").write_text(json.dumps(loop.summary(result), indent=1))
    print(f"faster than the baseline on {len(beaten)} op types: {', '.join(sorted(beaten)) or 'none'}")
    return 0


def copied(target: Path) -> Dataset:
    if not target.exists():
        shutil.copytree(default_path(), target, ignore=shutil.ignore_patterns("traces"))
    return Dataset.open(target)


def row(name: str, op_type: str, result: loop.Result) -> str:
    best = result.best
    if best is None:
        causes = sorted({one.line for one in result.attempts})
        return ROW.format(name, op_type, "-", "-", "0", len(result.attempts), "; ".join(causes)[:300])
    found = best.outcome
    interval = f"{found.lo:.3f}-{found.hi:.3f}"
    passed = f"{found.judged}/{found.expected}"
    solution = best.proposal.solution.name.removeprefix(f"{name}-")
    return ROW.format(name, op_type, f"{found.speedup:.3f}x", interval, passed, len(result.attempts), solution)


def quiet(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
