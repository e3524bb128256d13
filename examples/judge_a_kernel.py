"""Judge the C++ kernel beside this file against the shipped baseline. Run: `python examples/judge_a_kernel.py`."""

from __future__ import annotations

from pathlib import Path

from kernelmill import Dataset
from kernelmill.evaluator import evaluate
from kernelmill.evaluator.pack import pack


def main() -> None:
    dataset = Dataset.open()
    solution = pack(Path(__file__).parent / "rmsnorm_cpp")
    workloads = list(dataset.workloads(solution.definition))[:3]
    for trace in evaluate(dataset.definitions[solution.definition], solution, workloads, dataset=dataset):
        assert trace.evaluation is not None
        times = trace.evaluation.statistics
        ratio = f"{times.ratio:.2f}x of {times.baseline}" if times and times.ratio else trace.evaluation.reason
        print(trace.evaluation.verdict, trace.workload.axes, ratio)


if __name__ == "__main__":
    main()
