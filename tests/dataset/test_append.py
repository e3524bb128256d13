from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from pathlib import Path

import pytest

from kernelmill.dataset import Dataset, DatasetError
from kernelmill.trace_schema import Trace
from tests import builders
from tests.dataset.folder import (
    PROJECT,
    add_solution,
    add_traces,
    add_workloads,
    run_python,
    small,
    start_python,
    workload_line,
    write_json,
)

APPEND = """
import sys
from kernelmill.dataset import Dataset
from tests import builders
dataset = Dataset.open(sys.argv[1])
writer, count, log = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
for number in range(count):
    trace = builders.trace(workload={"uuid": f"{writer}-{number}"}, evaluation={"log": writer * log})
    dataset.append(trace)
    print(number, flush=True)
"""


def trace_file(root: Path) -> Path:
    return root / "traces/alice/rmsnorm/rmsnorm_h8.jsonl"


def uuids(path: Path) -> list[str]:
    return [json.loads(line)["workload"]["uuid"] for line in path.read_text().splitlines()]


def test_a_trace_goes_to_the_file_of_its_solutions_author(root: Path) -> None:
    dataset = Dataset.open(small(root))
    trace_file(root).unlink()
    dataset.append(builders.trace(workload={"uuid": "new"}))
    assert uuids(trace_file(root)) == ["new"]
    assert trace_file(root).read_bytes().endswith(b"}\n")
    assert [trace.workload.uuid for trace in dataset.traces(author="alice")] == ["new"]
    assert dataset.counts()["traces"] == 2
    best = dataset.best_trace("rmsnorm_h8", {"batch_size": 4}, author="alice")
    assert best is not None and best.workload.uuid == "new"


def test_what_is_written_is_what_was_given(root: Path) -> None:
    dataset = Dataset.open(small(root))
    raw = builders.raw_trace(workload={"uuid": "é\n\u2028", "note": 1}, evaluation={"log": "a\r\nb\x85"})
    raw["evaluation"]["correctness"] = {"max_relative_error": "NaN", "max_absolute_error": "Infinity"}
    dataset.append(Trace.model_validate(raw))
    lines = trace_file(root).read_bytes().split(b"\n")
    assert len(lines) == 3 and lines[-1] == b""
    assert json.loads(lines[1]) == raw


def test_a_workload_goes_to_its_definitions_file(root: Path) -> None:
    dataset = Dataset.open(small(root))
    dataset.append(builders.trace(workload={"uuid": "w16"}, evaluation=None))
    assert uuids(root / "workloads/rmsnorm/rmsnorm_h8.jsonl") == ["w4", "w9", "w16"]
    assert [workload.uuid for workload in dataset.workloads("rmsnorm_h8")][-1] == "w16"


def test_traces_of_nothing_known_are_refused(root: Path) -> None:
    dataset = Dataset.open(small(root))
    for fault, message in (
        ({"definition": "unheard"}, "no definition 'unheard'"),
        ({"solution": "unheard"}, "no solution 'unheard'"),
        ({"solution": None}, "a solution and an evaluation, or neither"),
    ):
        with pytest.raises(DatasetError, match=message):
            dataset.append(builders.trace(**fault))
    add_solution(root, name="other", definition="elsewhere")
    with pytest.raises(DatasetError, match="implements 'elsewhere', not 'rmsnorm_h8'"):
        dataset.append(builders.trace(solution="other"))
    assert uuids(trace_file(root)) == ["w4"]


def test_a_solution_added_by_another_process_is_known(root: Path) -> None:
    dataset = Dataset.open(small(root))
    add_solution(root, name="late", author="bob")
    dataset.append(builders.trace(solution="late"))
    assert (root / "traces/bob/rmsnorm/rmsnorm_h8.jsonl").is_file()


@pytest.mark.parametrize("author", ["../../../escape", "/tmp/escape", "a/b", "..", "nul\0", "new\nline", "x" * 300])
def test_an_author_cannot_lead_out_of_the_dataset(root: Path, tmp_path: Path, author: str) -> None:
    small(root)
    write_json(root / "solutions/evil.json", builders.raw_solution(name="evil", author=author))
    dataset = Dataset.open(root)
    before = sorted(tmp_path.rglob("*.jsonl"))
    with pytest.raises(DatasetError, match="cannot name a file"):
        dataset.append(builders.trace(solution="evil"))
    assert sorted(tmp_path.rglob("*.jsonl")) == before
    assert len(list(dataset.traces())) == 2


def test_a_linked_folder_cannot_lead_a_trace_out_of_the_dataset(root: Path, tmp_path: Path) -> None:
    small(root)
    add_solution(root, name="linked", author="bob")
    (tmp_path / "outside").mkdir()
    (root / "traces/bob").symlink_to(tmp_path / "outside")
    with pytest.raises(DatasetError, match="outside the dataset"):
        Dataset.open(root).append(builders.trace(solution="linked"))
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_missing_final_newline_is_repaired_first(root: Path) -> None:
    dataset = Dataset.open(small(root))
    trace_file(root).write_text(trace_file(root).read_text().rstrip("\n"))
    dataset.append(builders.trace(workload={"uuid": "new"}))
    assert uuids(trace_file(root)) == ["w4", "new"]


def test_a_line_cut_short_is_set_aside_and_the_file_is_readable_again(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = Dataset.open(small(root))
    torn = '{"definition": "rmsnorm_h8", "workload": {"uuid": "lo' + "x" * 200_000
    with trace_file(root).open("a") as stream:
        stream.write(torn)
    dataset.append(builders.trace(workload={"uuid": "new"}))
    assert uuids(trace_file(root)) == ["w4", "new"]
    assert (trace_file(root).parent / "rmsnorm_h8.jsonl.torn").read_text() == torn + "\n"
    assert f"{len(torn)} bytes" in caplog.text
    assert [trace.workload.uuid for trace in dataset.traces(author="alice")] == ["w4", "new"]
    assert dataset.problems() == []


def test_killing_the_writer_loses_at_most_the_line_being_written(root: Path) -> None:
    small(root)
    trace_file(root).unlink()
    with start_python(APPEND, root, "w", 1000, 20_000) as process:
        assert process.stdout is not None
        for _ in range(40):
            process.stdout.readline()
        time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        acknowledged = 40 + len(process.stdout.readlines())
    assert acknowledged < 1000

    dataset = Dataset.open(root)
    read = [trace.workload.uuid for trace in dataset.traces(author="alice")]
    assert read[:acknowledged] == [f"w-{number}" for number in range(acknowledged)]
    assert len(read) <= acknowledged + 1
    dataset.append(builders.trace(workload={"uuid": "after"}))
    assert uuids(trace_file(root)) == [*read, "after"]


def test_lines_of_several_writers_do_not_mix(root: Path) -> None:
    small(root)
    trace_file(root).unlink()
    processes = [start_python(APPEND, root, writer, 60, 10_000) for writer in "abcd"]
    for process in processes:
        process.communicate(timeout=120)
        assert process.returncode == 0
    written = uuids(trace_file(root))
    assert sorted(written) == sorted(f"{writer}-{number}" for writer in "abcd" for number in range(60))
    for writer in "abcd":
        own = [name for name in written if name.startswith(writer)]
        assert own == [f"{writer}-{number}" for number in range(60)]
    assert Dataset.open(root).counts()["traces"] == 241


def test_readers_beside_writers_see_whole_lines_only(root: Path) -> None:
    small(root)
    dataset = Dataset.open(root)
    counts = []
    with start_python(APPEND, root, "w", 150, 9_000) as process:
        while process.poll() is None:
            counts.append(len(list(dataset.traces("rmsnorm_h8"))))
            assert dataset.problems() == []
    assert counts == sorted(counts) and len(set(counts)) > 2
    assert len(list(dataset.traces("rmsnorm_h8"))) == 152


def test_a_file_replaced_while_its_lock_is_awaited_is_not_written_in_vain(root: Path) -> None:
    small(root)
    held = trace_file(root).open("a")
    fcntl.flock(held, fcntl.LOCK_EX)
    with start_python(APPEND, root, "w", 1, 1) as process:
        time.sleep(1.5)
        assert process.poll() is None
        add_traces(root, {"workload": {"uuid": "replaced"}}, author="new").replace(trace_file(root))
        held.close()
    assert uuids(trace_file(root)) == ["replaced", "w-0"]


def test_a_lock_is_not_awaited_for_ever(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelmill.dataset.append._LOCK_TIMEOUT_S", 0.1)
    dataset = Dataset.open(small(root))
    with trace_file(root).open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(DatasetError, match="locked by another process"):
            dataset.append(builders.trace())


def test_a_full_disk_leaves_the_file_as_it_was(root: Path, tmp_path: Path) -> None:
    small(root)
    before = trace_file(root).read_bytes()
    program = f"""
import resource, signal, sys
sys.path.insert(0, {str(PROJECT)!r})
from kernelmill.dataset import Dataset, DatasetError
from kernelmill.trace_schema import Trace
from tests import builders
dataset = Dataset.open(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before)} + 100, {len(before)} + 100))
try:
    dataset.append(builders.trace(evaluation={{"log": "x" * 1000}}))
except DatasetError as error:
    print(error)
"""
    ran = run_python(program, root)
    assert "rmsnorm_h8.jsonl" in ran.stdout and "could not be written" in ran.stdout, ran.stderr
    assert trace_file(root).read_bytes() == before


def test_an_unwritable_dataset_says_so(root: Path) -> None:
    small(root)
    (root / "traces/alice/rmsnorm").rename(root / "kept")
    (root / "traces/alice/rmsnorm").write_text("a file in the way")
    dataset = Dataset.open(root)
    with pytest.raises(
        DatasetError, match=r"traces/alice/rmsnorm/rmsnorm_h8.jsonl in .* cannot be written: Not a directory"
    ):
        dataset.append(builders.trace())


def test_nothing_is_added_to_an_lfs_pointer(root: Path) -> None:
    small(root)
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
    trace_file(root).write_text(pointer)
    with pytest.raises(DatasetError, match="Git LFS pointer"):
        Dataset.open(root).append(builders.trace())
    assert trace_file(root).read_text() == pointer


def test_a_new_workload_file_is_made_with_its_folders(root: Path) -> None:
    dataset = Dataset.open(root)
    dataset.add_definition(builders.definition())
    dataset.append(builders.trace(workload={"uuid": "first"}, evaluation=None))
    assert uuids(root / "workloads/rmsnorm/rmsnorm_h8.jsonl") == ["first"]
    assert add_workloads(root, {"uuid": "x"}).read_text() == json.dumps(workload_line(uuid="x")) + "\n"
