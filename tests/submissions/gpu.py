"""The GPU part of the corpus: `python -m tests.submissions.gpu` judges it on this host's GPU and prints the table.

A cheat must get one of its verdicts; its twin must be PASSED on every workload. Exit code 1 for a miss or false alarm.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from kernelmill.dataset import Dataset
from kernelmill.dataset.paths import default_path
from kernelmill.evaluator import JudgeOptions
from kernelmill.evaluator.devices import open_device
from kernelmill.evaluator.run import Forge
from kernelmill.trace_schema import Solution, Trace
from kernelmill.trace_schema.errors import KernelMillError
from tests.submissions.corpus import GPU_CASES, SIDES, Case, Side, load_cases
from tests.submissions.judging import Judgement, fault

DEFINITION = "rmsnorm_h4096"
BASELINE = "torch_fused_rmsnorm_h4096"
"""Not the shipped one, which every fresh worker has to compile for half a minute."""
ROWS = (64, 512)
"""The shipped workloads with about so many rows are judged."""
PLACES = 2
"""Cases at one table, each with its twin."""
TIMEOUT_S = 6.0
NAIVE_TIMEOUT_S = 60.0


def solution(case: Case, side: Side) -> Solution:
    raw = case.raw_solution(side, answer_port=0)
    raw["spec"]["target_hardware"] = ["cuda"]
    return Solution.model_validate(raw)


def judge_all(cases: Sequence[Case]) -> dict[tuple[str, Side], Judgement]:
    """Every case and its twin, on two sizes; PLACES cases sit together."""
    dataset, device = Dataset.open(default_path()), open_device("cuda")
    forge = Forge(JudgeOptions(sessions=1, timeout_s=TIMEOUT_S, burst_pairs_min=4, burst_pairs=4), device)
    try:
        found: dict[tuple[str, Side], Judgement] = {}
        for start in range(0, len(cases), PLACES):
            found |= _judge(cases[start : start + PLACES], dataset, forge)
        return found
    finally:
        device.close()


def _judge(cases: Sequence[Case], dataset: Dataset, forge: Forge) -> dict[tuple[str, Side], Judgement]:
    definition = dataset.definition(DEFINITION)
    shipped = list(dataset.workloads(definition))
    workloads = [min(shipped, key=lambda one: abs(one.axes["batch_size"] - rows)) for rows in ROWS]
    entries = {(case.name, side): solution(case, side) for case in cases for side in SIDES}
    built = [forge.build(entry) for entry in entries.values()]
    sitting = forge.sitting(definition, dataset.solution(BASELINE), dataset)
    traces: dict[str, list[Trace]] = {entry.name: [] for entry in entries.values()}
    error = ""
    try:
        for trace in sitting.traces([(one, workload) for workload in workloads for one in built]):
            traces[trace.solution or ""].append(trace)
    except KernelMillError as caught:
        error = f"{type(caught).__name__}: {caught}"
    return {key: Judgement(tuple(traces[entry.name]), error) for key, entry in entries.items()}


def believed(case: Case, side: Side) -> Mapping[str, float]:
    """What the naive harness says of one side; nothing where it dies or hangs."""
    file = GPU_CASES / case.name / side / "kernel.py"
    command = [sys.executable, "-m", "tests.submissions.naive_gpu", str(file)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=NAIVE_TIMEOUT_S)
        return dict(json.loads(done.stdout.strip().splitlines()[-1]))
    except (subprocess.TimeoutExpired, ValueError, IndexError):
        return {}


def bites(case: Case) -> str:
    """How the naive harness is fooled, or "" where it is not though the case says so."""
    if case.bites not in ("fast-and-passes", "passes"):
        return "not tried"
    cheat, honest = (believed(case, side) for side in SIDES)
    if not cheat.get("correct") or not honest.get("correct"):
        return ""
    if case.bites == "passes":
        return "believed"
    return f"{honest['us'] / cheat['us']:.1f}x" if honest["us"] > case.naive.speedup * cheat["us"] else ""


def main() -> int:
    cases, start = load_cases(GPU_CASES), time.monotonic()
    with ThreadPoolExecutor(6) as pool:
        fooled = dict(zip([case.name for case in cases], pool.map(bites, cases), strict=True))
    print(f"naive harness: {time.monotonic() - start:.0f} s: {fooled}", flush=True)
    judged, wrong = judge_all(cases), 0
    for case in cases:
        honest = judged[case.name, "honest"]
        problems = [
            problem
            for side in SIDES
            if (
                problem := fault(case, side, judged[case.name, side], None if case.gain or side == "honest" else honest)
            )
        ]
        wrong += bool(problems)
        verdicts = ", ".join(dict.fromkeys(verdict.value for verdict in judged[case.name, "cheat"].verdicts))
        print(
            f"| `{case.name}` | {case.title} | {', '.join(case.ids)} | {fooled[case.name] or 'NO BITE'} | {verdicts} |"
        )
        for side in SIDES:
            print(f"    {side}: {judged[case.name, side].told[:300]}")
        for problem in problems:
            print(f"    WRONG: {problem[:300]}", flush=True)
    print(f"{len(cases)} cases, {wrong} wrong, {time.monotonic() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
