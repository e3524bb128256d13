"""A range is served between its measured sizes only after this machine has judged the kernel there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelmill.apply import apply, enable_apply
from kernelmill.apply.approval.approve import approve
from kernelmill.apply.table import Range, read_verified
from kernelmill.apply.verify import CAPTURED, is_prime, sizes_of
from kernelmill.cli import app
from kernelmill.evaluator.sandbox import probe
from tests.apply.folder import SOURCE, cpp, operators_folder
from tests.apply.kernels import NORM, inputs, norm

needs_sandbox = pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")
WRONG_AT_SIX = SOURCE.replace("in[i] * scale * scales[i];", "in[i] * scale * scales[i] * (rows == 6 ? 1.01f : 1.0f);")


@given(st.integers(1, 600), st.integers(0, 600))
def test_the_sizes_asked_are_ends_neighbours_captures_and_some_inside(lo: int, length: int) -> None:
    hi = lo + length
    found = Range(solution="s", solution_hash="0", lo=(lo,), hi=(hi,), points=((lo,), (hi,)), lower=1.1, speedup=1.2)
    sizes = sizes_of(found)
    assert {lo, hi, hi + 1, max(1, lo - 1)} <= set(sizes)
    assert {size for size in CAPTURED if lo <= size <= hi} <= set(sizes)
    inside = range(lo + 1, hi)
    assert len([size for size in sizes if size in inside]) >= min(3, len(inside))
    assert any(size % 2 for size in sizes if size in inside) or not any(size % 2 for size in inside)
    assert any(map(is_prime, sizes)) or not any(map(is_prime, inside))


def test_primes() -> None:
    assert [number for number in range(30) if is_prime(number)] == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]


def run(*args: str) -> tuple[int, list[str]]:
    from typer.testing import CliRunner

    done = CliRunner().invoke(app, ["apply", *args])
    return done.exit_code, done.stdout.splitlines()


@needs_sandbox
def test_verified_ranges_are_served_whole_and_a_refused_one_at_its_measured_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a shell: build, keygen, approve, verify, explain. The kernel is wrong for 6 rows and no others."""
    solution = cpp(source=WRONG_AT_SIX)
    home = operators_folder(tmp_path, solution)
    monkeypatch.setenv("KERNELMILL_APPLY_HOME", str(home))
    monkeypatch.setenv("KERNELMILL_APPLY_FIRST", "0")
    approve(home, solution.hash())
    code, lines = run("verify", "--device", "cpu", "--json")
    outcomes = [json.loads(line) for line in lines]
    assert code == 1
    assert sorted(tuple(one["lo"] + one["hi"]) for one in outcomes if "lo" in one) == [(1, 2), (2, 4), (8, 16)]
    (refused,) = (one for one in outcomes if "why" in one)
    assert "[4]..[8]" in refused["what"]
    assert "{'batch_size': 6}: INCORRECT_NUMERICAL" in refused["why"]
    assert len(read_verified(home).ranges) == 3
    with enable_apply():
        seen = []

        def own(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            seen.append(len(x))
            return norm(x, weight)

        for rows in range(1, 18):
            apply(NORM.name, args=inputs(rows), fallback=own)
        assert seen == [5, 6, 7, 17]
    code, lines = run("explain", NORM.name, "--json")
    assert code == 0
    states = {line["sizes"]: line["served"] for line in map(json.loads, lines) if "sizes" in line}
    assert states == {
        "batch_size=1..2": "whole range",
        "batch_size=2..4": "whole range",
        "batch_size=4..8": "measured sizes",
        "batch_size=8..16": "whole range",
    }
    assert run("explain", NORM.name, "--axis", "batch_size=6")[1][0].startswith(f"{NORM.name}  None  no kernel covers")


@needs_sandbox
def test_the_shell_builds_a_table_from_a_dataset_and_approves_out_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.apply.folder import dataset

    fast = cpp()
    root = dataset(tmp_path / "data", fast).root
    monkeypatch.setenv("KERNELMILL_APPLY_HOME", str(tmp_path / "home"))
    assert run("keygen")[0] == 0
    code, lines = run("build", str(root), "--device", "cpu", "--json")
    assert code == 0
    assert {json.loads(line).get("solution_hash") for line in lines} >= {fast.hash()}
    assert run("approve", fast.hash()[:12])[1] == [f"approved {fast.name} {fast.hash()}"]
    assert run("approve", "--revoke", fast.hash()[:12])[1] == [f"revoked {fast.name}"]
    assert run("approve", "ffffffffffff")[0] == 1


def test_commands_that_lack_something_say_what_and_exit_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    monkeypatch.setenv("KERNELMILL_APPLY_HOME", str(tmp_path))
    done = CliRunner().invoke(app, ["apply", "explain"])
    assert (done.exit_code, "kernelmill apply build" in done.stderr) == (2, True)
    done = CliRunner().invoke(app, ["apply", "exec"])
    assert (done.exit_code, "name a program" in done.stderr) == (2, True)
    done = CliRunner().invoke(app, ["apply", "build", str(tmp_path / "nowhere")])
    assert (done.exit_code, "there is no dataset" in done.stderr) == (2, True)
