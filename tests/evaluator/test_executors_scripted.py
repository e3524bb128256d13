"""What a long-lived service asks of an executor: another owner in the owner's place, runs left early, little memory."""

from __future__ import annotations

import gc
import time
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kernelmill.dataset import Dataset
from kernelmill.evaluator import JudgeOptions
from kernelmill.evaluator.devices.cpu import Cpu
from kernelmill.evaluator.executors import LocalExecutor, Seen, Unit
from kernelmill.evaluator.executors.owner import KEPT, Owner
from kernelmill.evaluator.executors.process import END_S, OWNER
from kernelmill.evaluator.run import Forge
from kernelmill.evaluator.runner import Event
from kernelmill.evaluator.sandbox import probe
from kernelmill.trace_schema import Evaluation, Trace
from kernelmill.trace_schema.errors import InternalError
from tests.builders import SOURCE
from tests.dataset.folder import add_definition, add_solution, add_workloads
from tests.leaderboard.scripted_owner import DIED

SCRIPTED = "tests.leaderboard.scripted_owner"
PRETENDED = "tests.evaluator.pretended:open_owned"
WORKLOADS = ["w2", "w3", "w4"]
needs_sandbox = pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")


def make(root: Path, *lines: str, source: str = SOURCE) -> Unit:
    """A dataset with a baseline and, for each line, a solution that begins with it; the unit that judges these."""
    add_definition(root)
    add_workloads(root, *({"uuid": uuid, "axes": {"batch_size": int(uuid[1:])}} for uuid in WORKLOADS))
    add_solution(root, name="rmsnorm_baseline", author="baseline")
    names = [f"solution_{number}" for number in range(len(lines))]
    for name, line in zip(names, lines, strict=True):
        add_solution(root, name=name, source=f"{line}\n{source}")
    return Unit(str(root), "rmsnorm_h8", names, WORKLOADS)


def scripted(devices: int = 1) -> LocalExecutor:
    return LocalExecutor([f"cpu{number}" for number in range(devices)], JudgeOptions(), owner=SCRIPTED)


def judged(event: Event) -> tuple[Trace, Evaluation]:
    assert event.trace is not None, event
    assert event.trace.evaluation is not None
    return event.trace, event.trace.evaluation


def verdicts(events: list[Event]) -> Counter[tuple[str | None, str]]:
    found = [judged(event) for event in events if event.trace]
    return Counter((trace.solution, str(evaluation.verdict)) for trace, evaluation in found)


def test_another_owner_judges_in_the_owners_place(tmp_path: Path) -> None:
    unit = make(tmp_path, "# verdict: PASSED 2.0", "# verdict: INCORRECT_NUMERICAL", "# verdict: CHEAT_DETECTED", "")
    with closing(scripted()) as executor:
        assert (executor.seen, executor.share) == (Seen("cpu", "Test CPU"), 1)
        events = list(executor.run([unit]))
    assert Counter(event.kind for event in events) == {"building": 4, "trace": 12}
    said = ["PASSED", "INCORRECT_NUMERICAL", "CHEAT_DETECTED", "PASSED"]
    assert verdicts(events) == {(f"solution_{number}", verdict): 3 for number, verdict in enumerate(said)}


def test_its_traces_are_complete(tmp_path: Path) -> None:
    unit = make(tmp_path, "// verdict: PASSED 2.0")
    with closing(scripted()) as executor:
        trace, evaluation = judged(list(executor.run([unit]))[-1])
    dataset = Dataset.open(tmp_path)
    subject, times, environment = evaluation.subject, evaluation.statistics, evaluation.environment
    assert subject and times and times.ratio_ci95 and evaluation.evidence and environment.device
    assert subject.solution_hash == dataset.solution("solution_0").hash()
    assert subject.baseline_hash == dataset.solution("rmsnorm_baseline").hash()
    assert subject.workload_hash == trace.workload.hash()
    assert subject.definition_hash == dataset.definition("rmsnorm_h8").hash()
    assert (times.baseline, times.sessions) == ("rmsnorm_baseline", 3)
    assert times.ratio == pytest.approx(2.0)
    assert times.ratio_ci95[0] < 2.0 < times.ratio_ci95[1]
    assert (environment.device.name, environment.sandbox) == ("Test CPU", "bwrap")
    dataset.append(trace)
    assert list(Dataset.open(tmp_path).traces()) == [trace]


def test_it_judges_nothing_that_is_done(tmp_path: Path) -> None:
    unit = make(tmp_path, "# verdict: PASSED 2.0", "# verdict: PASSED 3.0")
    dataset = Dataset.open(tmp_path)
    hashes = [workload.hash() for workload in dataset.workloads("rmsnorm_h8")]
    done = [[dataset.solution("solution_0").hash(), hashes[0]], [dataset.solution("solution_1").hash(), hashes[2]]]
    rest = Unit(unit.dataset, unit.definition, unit.solutions, unit.workloads, done)
    with closing(scripted()) as executor:
        found = {
            (trace.solution, trace.workload.uuid) for trace, _ in (judged(e) for e in executor.run([rest]) if e.trace)
        }
    every = {(name, uuid) for name in unit.solutions for uuid in WORKLOADS}
    assert every - found == {("solution_0", "w2"), ("solution_1", "w4")}


def test_an_owner_that_dies_in_its_unit_is_our_fault_and_the_next_one_does_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit = make(tmp_path, "# die")
    monkeypatch.setenv(DIED, str(tmp_path / "died"))
    for kinds in ({"building": 1, "harness_error": 1}, {"building": 1, "trace": 3}):
        with closing(scripted()) as executor:
            events = list(executor.run([unit]))
        assert Counter(event.kind for event in events) == kinds
        assert all("SIGKILL" in event.text for event in events if event.kind == "harness_error")


def test_a_fault_of_the_judge_leaves_the_other_solutions_alone(tmp_path: Path) -> None:
    unit = make(tmp_path, "# harness_error", "# verdict: PASSED 2.0")
    with closing(scripted()) as executor:
        events = list(executor.run([unit]))
    assert [event.text for event in events if event.kind == "harness_error"] == ["solution_0: scripted"]
    assert verdicts(events) == {("solution_1", "PASSED"): 3}


def test_an_owner_that_is_no_module_is_told_of() -> None:
    with pytest.raises(InternalError, match="was lost"):
        LocalExecutor(["cpu"], JudgeOptions(), owner="tests.leaderboard.no_such_owner")


def descendants() -> set[int]:
    """Processes that come from this one; those of a sandbox too."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parent = int(text.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(stat.parent.name))
    found, todo = set(), [int(Path("/proc/self").readlink().name)]
    while todo:
        fresh = children.get(todo.pop(), [])
        found.update(fresh)
        todo += fresh
    return found


def assert_all_end(started: set[int]) -> None:
    deadline = time.monotonic() + 5
    while left := {pid for pid in started if Path(f"/proc/{pid}").exists()}:
        assert time.monotonic() < deadline, f"{left} outlive the run"
        time.sleep(0.02)


def midway(events: Iterator[Event], kind: str = "trace") -> None:
    next(event for event in events if event.kind == kind)


@pytest.mark.parametrize("left", ["the run is left", "the executor is closed"])
@pytest.mark.parametrize(
    "owner",
    [pytest.param(SCRIPTED, id="asleep"), pytest.param(OWNER, id="judging", marks=needs_sandbox)],
)
def test_a_run_that_is_left_early_leaves_no_process_behind(owner: str, left: str, tmp_path: Path) -> None:
    """Also one whose solution is in the midst of a call, in its sandbox."""
    slow = SOURCE.replace("    output.copy_", "    import time; time.sleep(0.5)\n    output.copy_")
    unit = make(tmp_path, "# sleep: 1", source=slow)
    before = descendants()
    options = JudgeOptions(sessions=1, pairs=4, pairs_min=2)
    executor = LocalExecutor(["one"], options, opener=PRETENDED, owner=owner)
    events = executor.run([unit])
    midway(events)
    started = descendants() - before
    assert len(started) >= (1 if owner == SCRIPTED else 3), "the owner, and its workers"
    start = time.monotonic()
    if left == "the run is left":
        events.close()  # type: ignore[attr-defined]
    else:
        executor.close()
    assert time.monotonic() - start < END_S / 2, "it was not waited for until it was killed"
    assert_all_end(started)
    assert executor.share == 0
    executor.close()


def test_a_run_goes_on_to_its_end_where_its_executor_was_closed(tmp_path: Path) -> None:
    quick, slow = make(tmp_path / "quick", "# sleep: 0.2"), make(tmp_path / "slow", "# sleep: 60")
    executor = scripted(devices=2)
    events = executor.run([quick, slow, quick])
    midway(events)
    executor.close()
    *_, last = events
    assert last.kind == "harness_error"
    assert "no owner of a device is left" in last.text


def test_an_owner_that_had_nothing_to_do_outlives_a_run_that_is_left(tmp_path: Path) -> None:
    unit = make(tmp_path, "# sleep: 0.3")
    with closing(scripted(devices=2)) as executor:
        events = executor.run([unit])
        midway(events)
        events.close()  # type: ignore[attr-defined]
        assert executor.share == 1
        assert Counter(event.kind for event in executor.run([unit])) == {"building": 1, "trace": 3}


@needs_sandbox
def test_an_owner_keeps_the_datasets_used_last_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service brings each submission in a folder of its own, for months."""
    opened: list[tuple[str, weakref.ref[Dataset]]] = []
    real = Dataset.open

    def noted(path: str) -> Dataset:
        dataset = real(path)
        opened.append((Path(path).name, weakref.ref(dataset)))
        return dataset

    monkeypatch.setattr(Dataset, "open", noted)
    owner = Owner(Forge(JudgeOptions(), Cpu()))

    def follow(number: int) -> None:
        assert [event.kind for event in owner.follow("build", units[number])] == []

    units = []
    for number in range(KEPT + 2):
        made = make(tmp_path / str(number))
        units.append(Unit(made.dataset, made.definition, [], WORKLOADS))
    for number in (0, 1, 0, *range(2, KEPT + 2), 0):
        follow(number)
    gc.collect()
    alive = [name for name, dataset in opened if dataset() is not None]
    assert len(alive) == KEPT
    assert [name for name, _ in opened].count("0") == 2, "it had gone when it was asked for again"
    follow(KEPT + 1)
    assert len(opened) == KEPT + 3, "what was used last is still open"
