"""The GPU part of the corpus: `python -m tests.submissions.gpu` judges it on this host's GPU and prints the table.

A cheat must fool the naive harness as its case says and get one of its verdicts from the judge; its twin must be PASSED
on every workload. Exit code 1 for a miss, a false alarm or a cheat without a bite.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from kernelmill.dataset import Dataset
from kernelmill.dataset.paths import default_path
from kernelmill.evaluator import JudgeOptions
from kernelmill.evaluator.devices import open_device
from kernelmill.evaluator.run import Forge
from kernelmill.trace_schema import Solution, Trace
from kernelmill.trace_schema.errors import KernelMillError
from tests.submissions.corpus import GPU_CASES, SIDES, Case, Clock, Side, load_cases
from tests.submissions.judging import Judgement, fault

DEFINITION = "rmsnorm_h4096"
BASELINE = "torch_fused_rmsnorm_h4096"
"""Not the shipped one, which every fresh worker has to compile for half a minute."""
ROWS = (64, 512)
"""The shipped workloads with about so many rows are judged."""
PLACES = 2
"""Cases at one table, each with its twin."""
OPTIONS = JudgeOptions(sessions=1, timeout_s=6.0, start_timeout_s=25.0, burst_pairs_min=4, burst_pairs=4)
NAIVE_TIMEOUT_S = 60.0
WRONG = "WRONG"


def solution(case: Case, side: Side) -> Solution:
    raw = case.raw_solution(side, answer_port=0)
    raw["spec"]["target_hardware"] = ["cuda"]
    return Solution.model_validate(raw)


def judge_all(cases: Sequence[Case]) -> Iterator[list[tuple[Case, Mapping[Side, Judgement]]]]:
    """Every case and its twin, on two sizes; PLACES cases sit together and are given together."""
    dataset, device = Dataset.open(default_path()), open_device("cuda")
    forge = Forge(OPTIONS, device)
    try:
        for start in range(0, len(cases), PLACES):
            table = cases[start : start + PLACES]
            judged = _judge(table, dataset, forge)
            yield [(case, {side: judged[case.name, side] for side in SIDES}) for case in table]
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
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.submissions.naive_gpu"])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_tell, args=(sender, GPU_CASES / case.name / side / "kernel.py", case.naive.clock))
    process.start()
    sender.close()
    try:
        return dict(receiver.recv()) if receiver.poll(NAIVE_TIMEOUT_S) else {}
    except EOFError:
        return {}
    finally:
        process.kill()
        process.join()


def _tell(sender: Connection, file: Path, clock: Clock) -> None:
    from tests.submissions import naive_gpu

    sender.send(naive_gpu.believed(file, clock))


def bites(case: Case) -> str:
    """How the naive harness is fooled, or "" where it is not though the case says so."""
    if case.bites not in ("fast-and-passes", "passes", "kills-harness"):
        return "not tried"
    cheat, honest = (believed(case, side) for side in SIDES)
    if case.bites == "kills-harness":
        return "dies" if honest.get("correct") and not cheat else ""
    if not cheat.get("correct") or not honest.get("correct"):
        return ""
    if case.bites == "passes":
        return "believed"
    return f"{honest['us'] / cheat['us']:.1f}x" if honest["us"] > case.naive.speedup * cheat["us"] else ""


def row(case: Case, fooled: str, judged: Mapping[Side, Judgement]) -> list[str]:
    """The case's line of the table, what was said of both sides, and what is wrong with it."""
    verdicts = ", ".join(dict.fromkeys(verdict.value for verdict in judged["cheat"].verdicts))
    lines = [f"| `{case.name}` | {case.title} | {', '.join(case.ids)} | {fooled or 'NO BITE'} | {verdicts} |"]
    lines += [f"    {side}: {found.told[:300]}" for side, found in judged.items()]
    for side, found in judged.items():
        twin = judged["honest"] if side == "cheat" and not case.gain else None
        if problem := fault(case, side, found, twin):
            lines.append(f"    {WRONG}: {side} {problem[:300]}")
    return lines


def main(names: Sequence[str]) -> int:
    """Only the cases named, or all."""
    cases = [case for case in load_cases(GPU_CASES) if not names or case.name in names]
    start = time.monotonic()
    fooled = {case.name: bites(case) for case in cases}
    print(f"naive harness: {time.monotonic() - start:.0f} s", flush=True)
    wrong = 0
    for several in judge_all(cases):
        for case, judged in several:
            lines = row(case, fooled[case.name], judged)
            wrong += any(WRONG in line for line in lines)
            print("\n".join(lines))
        print(f"    at {time.monotonic() - start:.0f} s", flush=True)
    toothless = sum(not found for found in fooled.values())
    print(f"{len(cases)} cases, {wrong} wrong, {toothless} without a bite, {time.monotonic() - start:.0f} s")
    return 1 if wrong or toothless else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
