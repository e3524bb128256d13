"""A kernel that goes wrong is taken out, and the caller gets its own kernel's answer: for every way of going wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kernelmill.apply import apply
from kernelmill.apply.errors import ApplyError
from kernelmill.apply.grid import Box
from kernelmill.apply.guard import trial
from kernelmill.apply.guard.counters import prometheus_text, snapshot, write_metrics
from kernelmill.apply.guard.draws import draws
from kernelmill.apply.missed import Missed
from kernelmill.apply.runtime import Looks, Runtime
from kernelmill.apply.settings import Settings, is_wanted
from kernelmill.apply.state import force
from tests.apply.kernels import HIDDEN, INPLACE, NORM, Counted, add_norm, inputs, norm, norm_into, runtime

ALWAYS = Looks(1.0, 0)
Kernel = Callable[..., None]


def cause(made: Runtime) -> str | None:
    (served,) = made.served.values()
    return served.breakers[0].cause


def raising(x: torch.Tensor, weight: torch.Tensor, output: torch.Tensor) -> None:
    output.fill_(1e9)
    raise RuntimeError("half-way")


def not_a_number(x: torch.Tensor, weight: torch.Tensor, output: torch.Tensor) -> None:
    norm_into(x, weight, output)
    output[-1, -1] = torch.nan


def off_by_one_percent(x: torch.Tensor, weight: torch.Tensor, output: torch.Tensor) -> None:
    norm_into(x, weight, output)
    output.mul_(1.01)


def writing_its_input(x: torch.Tensor, weight: torch.Tensor, output: torch.Tensor) -> None:
    norm_into(x, weight, output)
    x[0, 0] = 7.0


FAULTS: dict[str, Kernel] = {
    "exception": raising,
    "non_finite": not_a_number,
    "mismatch": off_by_one_percent,
    "wrote_input": writing_its_input,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_with_every_call_looked_at_no_fault_reaches_the_model(fault: str, tmp_path: Path) -> None:
    x, weight = inputs()
    given, right = x.clone(), norm(x, weight)
    kernel = Counted(FAULTS[fault])
    made = runtime(kernel, looks=ALWAYS, events=tmp_path / "events.jsonl")
    with force(made):
        for _ in range(3):
            assert torch.equal(apply(NORM.name, args=(x, weight), fallback=norm), right)
    assert torch.equal(x, given)
    assert cause(made) == fault
    assert kernel.calls == 1
    (event,) = (json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines())
    assert (event["event"], event["cause"], event["definition"]) == ("withdrawn", fault, NORM.name)


@pytest.mark.parametrize("fault", FAULTS)
def test_given_outputs_hold_the_originals_answer_after_a_fault(fault: str) -> None:
    x, weight = inputs()
    output = torch.empty_like(x)
    with force(runtime(FAULTS[fault], looks=ALWAYS)):
        apply(NORM.name, args=(x, weight, output), fallback=norm_into)
    assert torch.equal(output, norm(x, weight))


def test_an_exception_takes_the_kernel_out_even_where_nothing_is_looked_at() -> None:
    x, weight = inputs()
    kernel = Counted(raising)
    made = runtime(kernel)
    with force(made):
        for _ in range(3):
            assert torch.equal(apply(NORM.name, args=(x, weight), fallback=norm), norm(x, weight))
    assert (kernel.calls, cause(made)) == (1, "exception")


def test_a_right_kernel_stays_however_often_it_is_looked_at() -> None:
    made = runtime(looks=ALWAYS)
    with force(made):
        for rows in range(1, 17):
            apply(NORM.name, args=inputs(rows), fallback=norm)
    assert cause(made) is None
    assert made.served[NORM.name].trials[0].compared == 16


def test_the_first_call_of_each_range_is_looked_at_by_default() -> None:
    made = runtime(boxes=[Box((1,), (4,), 0), Box((9,), (9,), 0)], looks=Looks())
    with force(made):
        for rows in (1, 2, 3, 9, 9):
            apply(NORM.name, args=inputs(rows), fallback=norm)
    assert made.served[NORM.name].trials[0].compared == 2


@pytest.mark.parametrize("block", [2, 5, 20])
def test_at_a_share_the_wrong_calls_before_the_trip_are_bounded(block: int) -> None:
    """At most 2/share - 2 wrong outputs, whenever a kernel goes wrong."""
    x, weight = inputs()
    for healthy in range(0, 3 * block, 3):
        state = {"calls": 0}

        def kernel(x: torch.Tensor, weight: torch.Tensor, output: torch.Tensor) -> None:
            state["calls"] += 1  # noqa: B023 - called before the loop goes on
            norm_into(x, weight, output)
            if state["calls"] > healthy:  # noqa: B023
                output.add_(1.0)

        made = runtime(kernel, looks=Looks(1 / block, 0))
        wrong = 0
        with force(made):
            for _ in range(healthy + 2 * block):
                wrong += not torch.equal(apply(NORM.name, args=(x, weight), fallback=norm), norm(x, weight))
        assert cause(made) == "mismatch"
        assert wrong <= 2 * block - 2


def test_exactly_one_call_of_each_block_is_drawn() -> None:
    mark = Missed("looked at")
    drawn = draws(mark, 1 / 7, first=2)
    found = [next(drawn) for _ in range(2 + 70)]
    assert found[:2] == [mark, mark]
    assert all(found[2 + at : 9 + at].count(mark) == 1 for at in range(0, 70, 7))
    assert len({found[2 + at : 9 + at].index(mark) for at in range(0, 70, 7)}) > 1


def half_way(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, output: torch.Tensor) -> None:
    residual[0].add_(x[0])
    raise RuntimeError("after the first row")


@pytest.mark.parametrize("looks", [Looks(0.0, 0), ALWAYS], ids=["not looked at", "looked at"])
def test_an_in_place_kernel_that_fails_half_way_leaves_the_residual_stream_intact(looks: Looks) -> None:
    (x, weight), residual = inputs(), torch.randn(4, HIDDEN)
    expected = residual.clone()
    right = add_norm(x, expected, weight)
    made = runtime(half_way, definition=INPLACE, looks=looks)
    with force(made):
        got = apply(INPLACE.name, args=(x, residual, weight), fallback=add_norm)
    assert torch.equal(got, right)
    assert torch.equal(residual, expected)
    assert cause(made) == "exception"


def test_an_in_place_kernel_that_updates_wrongly_is_caught() -> None:
    def kernel(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, output: torch.Tensor) -> None:
        output.copy_(norm(x + residual, weight))  # right, but the residual is not updated

    (x, weight), residual = inputs(), torch.randn(4, HIDDEN)
    expected = residual + x
    made = runtime(kernel, definition=INPLACE, looks=ALWAYS)
    with force(made):
        apply(INPLACE.name, args=(x, residual, weight), fallback=add_norm)
    assert cause(made) == "mismatch"
    assert torch.equal(residual, expected)


def test_memory_that_stays_behind_takes_a_kernel_out(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []

    def kernel(x: torch.Tensor, weight: torch.Tensor, output: torch.Tensor) -> None:
        kept.append(torch.ones(4 << 20))  # 16 MiB
        norm_into(x, weight, output)

    monkeypatch.setattr(trial, "MEMORY_BYTES", 64 << 20)
    made = runtime(kernel, looks=ALWAYS)
    with force(made):
        for _ in range(12):
            apply(NORM.name, args=inputs(), fallback=norm)
    assert cause(made) == "memory"
    assert 4 <= len(kept) <= 8


def test_a_wrong_shape_is_caught() -> None:
    made = runtime(lambda x, w: norm(x, w)[:1], looks=ALWAYS, destination_passing=False)
    with force(made):
        assert apply(NORM.name, args=inputs(), fallback=norm).shape == (4, HIDDEN)
    assert cause(made) == "form"


def test_non_finite_values_that_the_original_has_too_are_no_fault() -> None:
    x, weight = inputs()
    x[1, 1] = torch.inf
    made = runtime(looks=ALWAYS)
    with force(made):
        apply(NORM.name, args=(x, weight), fallback=norm)
    assert cause(made) is None


def test_a_look_that_fails_itself_fails_no_call() -> None:
    """The caller's kernel answers in a way of its own, or with something that no comparator knows."""
    x, weight = inputs()
    made = runtime(looks=ALWAYS)
    with force(made):
        assert apply(NORM.name, args=(x, weight), fallback=lambda *args: None) is None
        assert apply(NORM.name, args=(x, weight), fallback=lambda *args: "done") == "done"
        meta = torch.empty(4, HIDDEN, device="meta")
        assert apply(NORM.name, args=(x, weight), fallback=lambda *args: meta) is meta
    assert cause(made) is None
    kernel = snapshot(made)["definitions"][NORM.name]["kernels"]["fast"]
    assert (kernel["looked_at"], kernel["compared"]) == (3, 0)
    assert kernel["incomparable"]


def test_counters_tell_what_served_and_what_did_not(tmp_path: Path) -> None:
    made = runtime(looks=Looks(0.0, 1))
    with force(made):
        for rows in (4, 4, 4, 17):
            apply(NORM.name, args=inputs(rows), fallback=norm)
        apply(NORM.name, args=(inputs()[0].double(), inputs()[1]), fallback=lambda *args: None)
    told = snapshot(made)["definitions"][NORM.name]
    assert (told["kernels"]["fast"]["served"], told["kernels"]["fast"]["looked_at"]) == (2, 1)
    assert (told["uncovered"], told["unfit"], told["failed"]) == (1, 1, 0)
    text = prometheus_text(made)
    assert f'kernelmill_apply_calls_total{{by="fast",definition="{NORM.name}"}} 2.0' in text
    assert f'kernelmill_apply_tripped{{definition="{NORM.name}",kernel="fast"}} 0.0' in text
    write_metrics(made, tmp_path)
    (written,) = tmp_path.glob("*.json")
    assert json.loads(written.read_text())["definitions"][NORM.name]["uncovered"] == 1


def test_events_that_cannot_be_written_disturb_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    x, weight = inputs()
    with force(runtime(raising, events=tmp_path / "file" / "events.jsonl")):
        assert torch.equal(apply(NORM.name, args=(x, weight), fallback=norm), norm(x, weight))
    assert "no events are kept" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["2", "-1", "much", "nan"])
def test_a_share_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ApplyError, match="KERNELMILL_APPLY_SHADOW"):
        Settings.read({"KERNELMILL_APPLY_SHADOW": text})


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"KERNELMILL_ENABLE_APPLY": "1"}, True),
        ({"FIB_ENABLE_APPLY": "true"}, True),
        ({"KERNELMILL_ENABLE_APPLY": "0", "FIB_ENABLE_APPLY": "1"}, False),
        ({"KERNELMILL_ENABLE_APPLY": "perhaps"}, False),
    ],
)
def test_the_switch_of_the_environment_has_an_alias_and_ours_comes_first(environ: dict[str, str], wanted: bool) -> None:
    assert is_wanted(environ) is wanted
