"""Runs spread over owner processes: who judges what, what is saved when, and what a lost owner costs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import kernelmill
from kernelmill.dataset import Dataset
from kernelmill.evaluator import JudgeOptions
from kernelmill.evaluator.devices import device_names
from kernelmill.evaluator.devices.cpu import Cpu
from kernelmill.evaluator.executors import Charge, LocalExecutor, Seen, Spread, Unit, split
from kernelmill.evaluator.executors.base import OPEN_FREE, OPEN_NAMED, Message
from kernelmill.evaluator.plan import Job, Selection, jobs
from kernelmill.evaluator.runner import Event
from kernelmill.evaluator.sandbox import Limits, probe
from kernelmill.trace_schema import Trace
from kernelmill.trace_schema.errors import InternalError
from tests.builders import trace
from tests.dataset.folder import add_definition, add_solution, add_workloads, start_python
from tests.evaluator.pretended import MODEL

needs_sandbox = pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")

OPTIONS = JudgeOptions(sessions=1, pairs=4, pairs_min=2, seconds=0.1)
HERE = "tests.evaluator.pretended"
SEEN = Seen("cpu", MODEL)


def make(root: Path, definitions: int, workloads: int) -> Dataset:
    """So many definitions, each with one solution and so many workloads."""
    for number in range(definitions):
        name = f"norm_{number}"
        add_definition(root, name=name)
        add_workloads(
            root,
            *({"uuid": f"w{rows}", "axes": {"batch_size": rows}} for rows in range(2, 2 + workloads)),
            definition=name,
        )
        add_solution(root, name=f"{name}_alice", definition=name)
    return Dataset.open(root)


def todo(dataset: Dataset, *, resume: bool = False) -> list[Job]:
    return list(jobs(dataset, Selection(resume=resume), SEEN))


def told(trace: Trace | None) -> tuple[str, int]:
    """The device that judged it, and the process that owned the device."""
    assert trace is not None
    assert trace.evaluation is not None
    clocks: Any = trace.evaluation.environment.clocks
    return clocks["opened_as"], clocks["pid"]


def run(spread: Spread, work: list[Job]) -> Iterator[Event]:
    return (event for event in spread.run(work) if event.kind != "building")


@needs_sandbox
def test_two_owners_share_a_queue_and_the_parent_saves_each_trace_as_it_comes(tmp_path: Path) -> None:
    dataset = make(tmp_path, definitions=4, workloads=2)
    owners: dict[str, set[int]] = {}
    saved = []
    with closing(LocalExecutor(["one", "two"], OPTIONS, opener=f"{HERE}:open_owned")) as executor:
        spread = Spread(dataset, executor, save=True)
        for event in run(spread, todo(dataset)):
            assert event.trace is not None, event
            device, pid = told(event.trace)
            owners.setdefault(device, set()).add(pid)
            saved.append(len(list(Dataset.open(tmp_path).traces())))
    assert saved == [1, 2, 3, 4, 5, 6, 7, 8]
    assert spread.exit_code == 0
    assert set(owners) == {"one", "two"}
    assert [len(pids) for pids in owners.values()] == [1, 1], "a device has one owner from the first unit to the last"
    assert owners["one"] != owners["two"]
    assert os.getpid() not in owners["one"] | owners["two"]
    assert todo(dataset, resume=True) == []


@needs_sandbox
def test_a_killed_owner_costs_its_unit_only_and_resume_judges_the_rest(tmp_path: Path) -> None:
    dataset = make(tmp_path, definitions=3, workloads=3)
    with closing(LocalExecutor(["one", "two"], OPTIONS, opener=f"{HERE}:open_owned")) as executor:
        spread = Spread(dataset, executor, save=True)
        events = run(spread, todo(dataset))
        first = next(events)
        os.kill(told(first.trace)[1], signal.SIGKILL)
        rest = list(events)
    assert first.trace is not None
    (lost,) = [event for event in rest if event.trace is None]
    assert lost.kind == "harness_error"
    assert first.trace.definition in lost.text
    assert "SIGKILL" in lost.text
    assert "kernelmill run --resume" in lost.text
    assert spread.exit_code == 1
    assert len({told(event.trace) for event in rest if event.trace}) == 1
    others = [
        event.trace.definition for event in rest if event.trace and event.trace.definition != first.trace.definition
    ]
    assert len(others) == 6

    (again,) = todo(dataset, resume=True)
    assert again.definition.name == first.trace.definition
    with closing(LocalExecutor(["one", "two"], OPTIONS, opener=f"{HERE}:open_owned")) as executor:
        assert {event.kind for event in run(Spread(dataset, executor, save=True), [again])} == {"trace"}
    assert len(list(dataset.traces())) == 9


@needs_sandbox
def test_units_that_no_owner_is_left_for_are_told_of(tmp_path: Path) -> None:
    dataset = make(tmp_path, definitions=2, workloads=2)
    with closing(LocalExecutor(["one"], OPTIONS, opener=f"{HERE}:open_owned")) as executor:
        events = run(Spread(dataset, executor, save=False), todo(dataset))
        os.kill(told(next(events).trace)[1], signal.SIGKILL)
        texts = [event.text for event in events if event.trace is None]
    assert len(texts) == 2
    assert "no owner of a device is left" in texts[1]
    assert not (tmp_path / "traces").exists()


@needs_sandbox
def test_an_owner_that_hangs_is_killed_at_its_deadline(tmp_path: Path) -> None:
    dataset = make(tmp_path, definitions=1, workloads=4)
    with closing(LocalExecutor(["one"], OPTIONS, opener=f"{HERE}:open_owned", silence_s=15)) as executor:
        events = run(Spread(dataset, executor, save=False), todo(dataset))
        os.kill(told(next(events).trace)[1], signal.SIGSTOP)
        (lost,) = [event for event in events if event.trace is None]
    assert "said nothing within its deadline" in lost.text


@needs_sandbox
def test_a_device_has_one_owner_and_all_devices_of_a_run_are_alike() -> None:
    with closing(LocalExecutor(["one"], OPTIONS, opener=f"{HERE}:open_owned")) as executor:
        assert executor.seen == SEEN
        with pytest.raises(InternalError, match="pretended-one is being used by another judge"):
            LocalExecutor(["one"], OPTIONS, opener=f"{HERE}:open_owned")
    with pytest.raises(InternalError, match=r"must be alike, but a is .* a, b is .* b"):
        LocalExecutor(["a", "b"], OPTIONS, opener=f"{HERE}:open_unlike")


@needs_sandbox
@pytest.mark.parametrize("opener", [OPEN_NAMED, OPEN_FREE])
def test_owners_open_real_devices_too(opener: str) -> None:
    with closing(LocalExecutor(["cpu"], OPTIONS, opener=opener)) as executor:
        assert (executor.seen, executor.share) == (Seen("cpu", Cpu().model), 1)
        if opener == OPEN_FREE:
            with pytest.raises(InternalError, match="cpu is being used by another judge"):
                LocalExecutor([Cpu().model], OPTIONS, opener=opener)
            with pytest.raises(InternalError, match="has no Nonesuch 9 that is free"):
                LocalExecutor(["Nonesuch 9"], OPTIONS, opener=opener)


@needs_sandbox
def test_a_unit_of_another_dataset_is_the_datasets_fault(tmp_path: Path) -> None:
    make(tmp_path, definitions=1, workloads=1)
    units = [Unit(str(tmp_path), "norm_0", ["norm_0_alice"], ["w99"]), Unit(str(tmp_path / "no"), "norm_0", [], [])]
    with closing(LocalExecutor(["one"], OPTIONS, opener=f"{HERE}:open_owned")) as executor:
        events = {event.kind: event.text for event in executor.run(units)}
    assert set(events) == {"dataset_error"}


@needs_sandbox
def test_an_owner_ends_with_the_run_that_started_it() -> None:
    program = (
        "import os, time; from kernelmill.evaluator import JudgeOptions;"
        "from kernelmill.evaluator.executors import LocalExecutor;"
        f"executor = LocalExecutor(['one'], JudgeOptions(), opener='{HERE}:open_owned');"
        "print(os.getpid(), flush=True); time.sleep(600)"
    )
    started = start_python(program)
    assert started.stdout is not None
    with started.stdout:
        started.stdout.readline()
        (owner,) = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
        started.kill()
        started.wait()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{owner}").exists():
        assert time.monotonic() < deadline, "the owner outlives its run"
        time.sleep(0.05)


def test_a_unit_is_a_definition_unless_devices_would_idle(tmp_path: Path) -> None:
    few = todo(make(tmp_path, definitions=2, workloads=5))
    assert [unit.definition for unit in split(few, "here", share=2)] == ["norm_0", "norm_1"]
    units = split(few, "here", share=3)
    assert [(unit.definition, len(unit.workloads)) for unit in units] == [
        ("norm_0", 3),
        ("norm_1", 3),
        ("norm_0", 2),
        ("norm_1", 2),
    ]
    assert sorted(uuid for unit in units if unit.definition == "norm_0" for uuid in unit.workloads) == [
        workload.uuid for workload in few[0].workloads
    ]
    assert len(split(few, "here", share=100)) == 10
    assert split([], "here", share=2) == []


def test_what_crosses_the_pipe_is_read_as_it_was_said() -> None:
    odd = trace(
        evaluation={
            "status": "INCORRECT_NUMERICAL",
            "correctness": {"max_relative_error": "Infinity", "max_absolute_error": 1},
        }
    )
    for message in (
        Message("ready", "node 1", seen=SEEN),
        Message("event", event=Event("trace", "line\nline", odd)),
        Message("event", event=Event("skipped", "why")),
        Message("done"),
    ):
        assert "\n" not in message.to_json()
        assert Message.from_json(message.to_json()) == message
    charge = Charge("cuda:1", JudgeOptions(cache=Path("/c"), limits=Limits(processes=3), sandbox="none"))
    assert Charge.from_json(charge.to_json()) == charge
    with pytest.raises(InternalError, match="install the same version"):
        Charge.from_json(charge.to_json().replace(kernelmill.__version__, "0.0.0"))
    unit = Unit("/d", "norm", ["a"], ["w"], [["x", "y"]])
    assert Unit.from_json(unit.to_json()) == unit


@pytest.mark.parametrize("text", ["cuda:0,cuda", "cuda:1,cuda:1", "cpu, cpu"])
def test_a_device_is_named_once(text: str) -> None:
    with pytest.raises(InternalError, match="twice"):
        device_names(text)


def test_names_of_devices_are_separated_by_commas() -> None:
    assert device_names("cuda:0, cuda:1") == ["cuda:0", "cuda:1"]
    assert device_names("auto") == ["auto"]
    with pytest.raises(InternalError, match="auto stands alone"):
        device_names("auto,cpu")
