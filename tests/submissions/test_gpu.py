"""The GPU part of the corpus: its form here, its verdicts where there is a GPU."""

from __future__ import annotations

import pytest
import torch

from kernelmill.trace_schema import Verdict
from tests.submissions import gpu
from tests.submissions.corpus import GPU_CASES, SIDES, Case, load_cases

CASES = load_cases(GPU_CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_whole(case: Case) -> None:
    cheat, honest = (gpu.solution(case, side) for side in SIDES)
    assert case.title and case.ids and case.expect
    assert [source.path for source in cheat.sources] == [source.path for source in honest.sources]
    assert cheat.sources != honest.sources
    assert (Verdict.PASSED in case.expect) is not case.gain, "PASSED needs a condition"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU on this host")
def test_no_cheat_is_missed_and_no_twin_accused() -> None:
    for several in gpu.judge_all(CASES):
        for case, judged in several:
            lines = gpu.row(case, gpu.bites(case), judged)
            assert not [line for line in lines if gpu.WRONG in line], "\n".join(lines)
