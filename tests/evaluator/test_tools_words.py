"""What the tools for authors make of numbers and words: counters, verdicts, findings."""

from __future__ import annotations

import pytest

from kernelmill.evaluator.cost import Work
from kernelmill.evaluator.tools import counters
from kernelmill.evaluator.tools.counters import Kernel
from kernelmill.evaluator.tools.findings import Finding, parse
from kernelmill.evaluator.tools.roofline import Verdict, verdict
from kernelmill.trace_schema.errors import InternalError
from tests.evaluator import tool_outputs as said
from tests.evaluator.test_tools import Pretender

LEAST = Work(4e6, 0.0)


def a_kernel(
    seconds: float = 1e-5, moved: float | None = 4e6, sm_pct: float | None = 10.0, name: str = "kernel"
) -> Kernel:
    half = None if moved is None else moved / 2
    return Kernel(name, "", "", seconds, half, half, 50.0, sm_pct, 0.0, 50.0, 50.0, 32.0, 0.0)


def judged(*kernels: Kernel, work: Work = LEAST, calls: int = 1) -> Verdict:
    return verdict(kernels, work, calls, Pretender())


def test_the_table_is_found_among_other_words() -> None:
    first, second = counters.parse(f'"ID","what the program prints"\n"0","1"\n{said.NCU}==PROF== the end\n')
    assert (first.name, first.block) == ("rmsnorm_kernel(const float *, float *, int)", "(256, 1, 1)")
    assert first.written_bytes == 67.1e6
    assert (first.dram_pct, first.sm_pct, first.occupancy_pct, first.shared_bytes) == (81.2, 22.5, 91.77, 1056)
    assert (second.name, second.l2_hit_pct) == ("void tail_kernel<float>(T1 *)", None)


@pytest.mark.parametrize(
    ("unit", "seconds"), [("ns", 4e-5), ("nsecond", 4e-5), ("usecond", 4e-2), ("msecond", 40.0), ("s", 4e4)]
)
def test_units_of_every_version(unit: str, seconds: float) -> None:
    assert counters.parse(said.NCU.replace('"ns"', f'"{unit}"'))[0].seconds == pytest.approx(seconds)


def test_a_table_that_cannot_be_read_says_so() -> None:
    with pytest.raises(InternalError, match="no unit known"):
        counters.parse(said.NCU.replace('"ns"', '"fortnight"'))
    with pytest.raises(InternalError, match="no time"):
        counters.parse(said.NCU.replace('"40,000"', '"n/a"'))
    with pytest.raises(InternalError, match="cannot be read"):
        counters.parse(said.NCU.replace("rmsnorm_kernel", "x" * 200_000))
    assert counters.parse("no table") == []


def test_words_that_nobody_knows_are_no_refusal() -> None:
    assert counters.refusal("==PROF== all is well") is None


def test_memory_bound() -> None:
    made = judged(a_kernel(1.25e-6, 4e6))
    assert (made.bound, round(made.memory_share, 3), round(made.roofline_share, 3)) == ("memory-bound", 0.8, 0.8)
    assert "80% of the measured bandwidth" in made.text and "moves 1.00 times the 4.00 MB" in made.text


def test_moving_too_much_shows_although_memory_is_busy() -> None:
    made = judged(a_kernel(2.5e-6, 8e6))
    assert made.bound == "memory-bound"
    assert made.memory_share == pytest.approx(0.8)
    assert made.roofline_share == pytest.approx(0.4)
    assert "moves 2.00 times" in made.text


def test_compute_bound_by_the_definition_or_by_the_counter() -> None:
    by_flops = judged(a_kernel(1e-3), work=Work(4e6, 6.4e11))
    assert by_flops.bound == "compute-bound"
    assert by_flops.compute_share == pytest.approx(0.8)
    assert "80% busy" in by_flops.text
    by_counter = judged(a_kernel(1e-3, sm_pct=90.0))
    assert by_counter.bound == "compute-bound"
    assert by_counter.compute_share == pytest.approx(0.9)


def test_latency_bound() -> None:
    made = judged(a_kernel(1e-4))
    assert made.bound == "latency-bound"
    assert "neither memory (1%) nor arithmetic (10%)" in made.text


def test_calls_are_averaged_and_missing_counters_replaced() -> None:
    made = judged(*[a_kernel(1e-6, None, None)] * 4, calls=2)
    assert made.kernels == 2
    assert made.seconds == pytest.approx(2e-6)
    assert made.moved_bytes == pytest.approx(4e6)


def only(output: str) -> Finding:
    (finding,) = parse(output)
    return finding


def test_memcheck() -> None:
    found = only(said.MEMCHECK)
    assert found[:5] == (
        "error",
        "Invalid __global__ write of size 4 bytes",
        "scale_kernel(float *, int)",
        "scale.cu:14",
        2,
    )
    assert found.lines[2] == "by thread (0,0,0) in block (1,0,0)"


def test_racecheck() -> None:
    race, mild = parse(said.RACECHECK)
    assert race[:4] == ("error", "Race reported between Write access", "ka_race(int *)", "probe.cu:13")
    assert race.lines[1] == "and Read access at ka_race(int *)+0xa0 in probe.cu:14 [2048 hazards]"
    assert (mild.severity, mild.kernel, mild.place) == ("warning", "mild(int *)", "+0x50")


def test_initcheck_names_the_kernel_and_not_only_the_function() -> None:
    found = only(said.INITCHECK)
    assert (found.kernel, found.place) == ("add_kernel(const float *, float *)", "+0x70")
    assert found.kind == "Uninitialized __global__ memory read of size 4 bytes"


def test_synccheck() -> None:
    found = only(said.SYNCCHECK)
    assert (found.kind, found.place) == ("Barrier error detected. Divergent thread(s) in warp", "probe.cu:20")


def test_older_words_and_unknown_ones() -> None:
    assert only(said.OLD)[1:4] == ("Invalid __shared__ read of size 4 bytes", "SomeKernel", "?")
    unknown = only(said.UNKNOWN)
    assert (unknown.kind, unknown.times) == ("3 errors of a kind unknown here", 3)
    assert parse(said.CLEAN) == []
