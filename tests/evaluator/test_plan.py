"""What a run has to judge depends on the device: solutions and baselines say in `target_hardware` where they belong."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kernelmill.dataset import Dataset
from kernelmill.dataset.paths import default_path
from kernelmill.evaluator.demo import demo_jobs
from kernelmill.evaluator.devices.cpu import Cpu
from kernelmill.evaluator.plan import Selection, jobs
from kernelmill.evaluator.run import find_baseline, is_for
from kernelmill.trace_schema import Solution
from tests.builders import raw_solution

NAME = "rmsnorm_h4096"


class Gpu(NamedTuple):
    """A GPU by name only."""

    kind: str = "cuda"
    model: str = "NVIDIA H200"


def a_solution(*targets: str) -> Solution:
    raw = raw_solution()
    raw["spec"]["target_hardware"] = list(targets)
    return Solution.model_validate(raw)


@pytest.mark.parametrize(
    ("targets", "on_cpu", "on_gpu"),
    [
        (("cpu",), True, False),
        (("CPU",), True, False),
        (("cuda",), False, True),
        (("NVIDIA_H200",), False, True),
        (("cpu", "cuda"), True, True),
        (("LOCAL",), True, True),
    ],
)
def test_target_hardware_says_where_a_solution_belongs(targets: tuple[str, ...], on_cpu: bool, on_gpu: bool) -> None:
    solution = a_solution(*targets)
    assert (is_for(solution, "cpu"), is_for(solution, "cuda")) == (on_cpu, on_gpu)


def test_on_a_gpu_only_what_is_meant_for_one_is_judged() -> None:
    (job,) = jobs(Dataset.open(default_path()), Selection(definitions=[NAME]), Gpu())  # type: ignore[arg-type]
    assert {solution.spec.language.value for solution in job.solutions} == {"python", "triton", "cuda"}
    assert all(is_for(solution, "cuda") for solution in job.solutions)
    assert job.solutions[0].author == "baseline"


def test_on_a_cpu_python_for_a_gpu_is_left_out_unless_it_is_asked_for() -> None:
    dataset = Dataset.open(default_path())
    (job,) = jobs(dataset, Selection(definitions=[NAME]), Cpu())
    names = {solution.name for solution in job.solutions}
    assert "flashinfer_rmsnorm_h4096" not in names
    assert {"triton_row_rmsnorm_h4096", "cuda_row_rmsnorm_h4096", "torch_compile_rmsnorm_h4096"} <= names
    (asked,) = jobs(dataset, Selection(solutions=["flashinfer_rmsnorm_h4096"]), Cpu())
    assert [solution.name for solution in asked.solutions] == ["flashinfer_rmsnorm_h4096"]


def test_the_demo_judges_what_is_meant_for_a_cpu() -> None:
    dataset = Dataset.open(default_path())
    (job,) = demo_jobs(dataset, {NAME: [next(iter(dataset.workloads(dataset.definition(NAME)))).uuid]})
    assert [solution.name for solution in job.solutions] == [
        "torch_compile_rmsnorm_h4096",
        "cpp_simd_rmsnorm_h4096",
        "triton_row_rmsnorm_h4096",
    ]


def test_each_kind_of_device_has_a_baseline_of_its_own() -> None:
    dataset = Dataset.open(default_path())
    definition = dataset.definition(NAME)
    found = [find_baseline(definition, dataset, device) for device in (Cpu(), Gpu())]  # type: ignore[arg-type]
    assert [one.name for one in found if one] == ["torch_compile_rmsnorm_h4096", "flashinfer_rmsnorm_h4096"]
