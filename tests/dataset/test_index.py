from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelmill.dataset import Dataset
from tests import builders
from tests.dataset.folder import add_definition, add_traces, run_python, small, start_python, write_json, write_lines

READ = """
import sys
from kernelmill.dataset import Dataset
dataset = Dataset.open(sys.argv[1])
print(dataset.counts()["traces"], len(list(dataset.traces())))
"""


def index_file(cache: Path) -> Path:
    (file,) = (cache / "index").glob("*.sqlite")
    return file


def trace_file(root: Path) -> Path:
    return root / "traces/alice/rmsnorm/rmsnorm_h8.jsonl"


def uuids(root: Path) -> list[str]:
    return [trace.workload.uuid for trace in Dataset.open(root).traces(author="alice")]


def write_traces(root: Path, *names: str) -> None:
    add_traces(root, *({"workload": {"uuid": name}} for name in names))


def settle(path: Path) -> None:
    """Until the file is old enough for its stamp to be trusted."""
    while time.time_ns() - path.stat().st_ctime_ns < 150_000_000:
        time.sleep(0.02)


def test_the_index_is_in_the_cache_and_never_in_the_dataset(root: Path, cache: Path) -> None:
    before = sorted(small(root).rglob("*"))
    Dataset.open(root)
    assert sorted(root.rglob("*")) == before
    assert index_file(cache).is_file()


def test_the_cache_folder_may_be_named(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(root)
    Dataset.open(root, cache_dir=tmp_path / "named")
    assert list((tmp_path / "named/index").glob("*.sqlite"))
    monkeypatch.delenv("KERNELMILL_CACHE")
    monkeypatch.setenv("FIB_CACHE_PATH", str(tmp_path / "alias"))
    Dataset.open(root)
    assert list((tmp_path / "alias/index").glob("*.sqlite"))


def test_two_datasets_do_not_share_an_index_and_a_link_to_one_does(root: Path, tmp_path: Path, cache: Path) -> None:
    small(root)
    shutil.copytree(root, tmp_path / "copy")
    (tmp_path / "link").symlink_to(root)
    for path in (root, tmp_path / "copy", tmp_path / "link"):
        Dataset.open(path)
    assert len(list((cache / "index").glob("*.sqlite"))) == 2


def test_deleting_the_index_loses_nothing(root: Path, cache: Path) -> None:
    small(root)
    first = Dataset.open(root).counts()
    shutil.rmtree(cache)
    assert Dataset.open(root).counts() == first
    assert uuids(root) == ["w4"]


@pytest.mark.parametrize(
    "change",
    [
        lambda root: write_traces(root, "a", "b", "c"),
        lambda root: write_traces(root, "z"),
        lambda root: trace_file(root).unlink(),
        lambda root: trace_file(root).write_text(""),
        lambda root: write_lines(root / "new", [builders.raw_trace()]).replace(trace_file(root)),
    ],
    ids=["grown", "shorter", "gone", "emptied", "replaced"],
)
def test_a_trace_file_that_changed_is_read_again(root: Path, change: Callable[[Path], None]) -> None:
    small(root)
    write_traces(root, "a", "b")
    assert uuids(root) == ["a", "b"]
    settle(trace_file(root))
    assert uuids(root) == ["a", "b"]
    change(root)
    expected = [json.loads(line)["workload"]["uuid"] for line in text(trace_file(root)).splitlines()]
    assert uuids(root) == expected


def text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_an_edit_of_equal_length_in_a_file_that_also_grew_is_seen(root: Path) -> None:
    small(root)
    write_traces(root, "a", "b")
    settle(trace_file(root))
    assert uuids(root) == ["a", "b"]
    grown = trace_file(root).read_text().replace('"uuid": "a"', '"uuid": "X"')
    trace_file(root).write_text(grown + json.dumps(builders.raw_trace(workload={"uuid": "c"})) + "\n")
    assert uuids(root) == ["X", "b", "c"]


def test_an_edit_of_equal_length_and_time_is_seen(root: Path) -> None:
    path = add_definition(small(root), description="aaaa")
    settle(path)
    assert Dataset.open(root).definitions["rmsnorm_h8"].description == "aaaa"
    times = path.stat()
    path.write_text(path.read_text().replace("aaaa", "bbbb"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert Dataset.open(root).definitions["rmsnorm_h8"].description == "bbbb"


def test_an_edit_right_after_opening_is_seen(root: Path) -> None:
    path = add_definition(small(root), description="aaaa")
    Dataset.open(root)
    path.write_text(path.read_text().replace("aaaa", "bbbb"))
    dataset = Dataset.open(root)
    assert dataset.definitions["rmsnorm_h8"].description == "bbbb"


def test_only_the_new_end_of_a_grown_file_is_read(root: Path, cache: Path) -> None:
    small(root)
    write_traces(root, "a", "b")
    Dataset.open(root)
    with sqlite3.connect(index_file(cache)) as connection:
        connection.execute("UPDATE line SET solution = 'marked' WHERE uuid = 'a'")
    connection.close()
    with trace_file(root).open("a") as stream:
        stream.write(json.dumps(builders.raw_trace(workload={"uuid": "c"})) + "\n")
    dataset = Dataset.open(root)
    assert len(list(dataset.traces(solution="marked"))) == 1
    assert dataset.counts()["traces"] == 4


def test_an_open_dataset_sees_what_another_process_appends(root: Path) -> None:
    dataset = Dataset.open(small(root))
    assert len(list(dataset.traces("rmsnorm_h8", author="alice"))) == 1
    write_traces(root, "a", "b", "c")
    assert len(list(dataset.traces("rmsnorm_h8", author="alice"))) == 3
    write_json(root / "definitions/rmsnorm/second.json", builders.raw_definition(name="second"))
    dataset.refresh()
    assert list(dataset.definitions) == ["rmsnorm_h8", "second"]


def test_a_last_line_without_its_newline_is_read_and_completed_later(root: Path) -> None:
    small(root)
    whole = json.dumps(builders.raw_trace(workload={"uuid": "b"}))
    write_traces(root, "a")
    first = trace_file(root).read_text()
    trace_file(root).write_text(first + whole)
    assert uuids(root) == ["a", "b"]
    trace_file(root).write_text(first + whole[:50])
    dataset = Dataset.open(root)
    (problem,) = dataset.problems()
    assert problem.line == 2 and "cut short" in problem.reason
    trace_file(root).write_text(first + whole + "\n")
    assert uuids(root) == ["a", "b"]
    assert Dataset.open(root).problems() == []


@pytest.mark.parametrize("damage", ["no database", "cut short", "pages overwritten"])
def test_a_corrupt_index_is_warned_of_and_not_used(
    root: Path, cache: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    small(root)
    Dataset.open(root)
    file = index_file(cache)
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    content = file.read_bytes()
    damaged = {
        "no database": b"not a database at all" * 500,
        "cut short": content[: len(content) // 3],
        "pages overwritten": content[:4096] + b"\xa5" * (len(content) - 4096),
    }
    file.write_bytes(damaged[damage])
    dataset = Dataset.open(root)
    assert len(list(dataset.traces())) == 2
    assert dataset.counts() == {"definitions": 1, "solutions": 2, "workloads": 2, "traces": 2}
    assert str(file) in caplog.text and "KERNELMILL_CACHE" in caplog.text


def test_an_index_that_lost_its_tables_is_not_used(root: Path, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    small(root)
    Dataset.open(root)
    connection = sqlite3.connect(index_file(cache))
    connection.execute("DROP TABLE line")
    connection.close()
    assert len(list(Dataset.open(root).traces())) == 2
    assert "no such table" in caplog.text


def test_an_index_that_breaks_while_it_is_used_is_left(
    root: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = Dataset.open(small(root))
    connection = sqlite3.connect(index_file(cache))
    connection.execute("DROP TABLE holds")
    connection.close()
    assert len(list(dataset.traces())) == 2
    assert "cannot be used" in caplog.text


def test_a_cache_that_cannot_be_made_is_warned_of(root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    dataset = Dataset.open(small(root), cache_dir=tmp_path / "file")
    assert len(list(dataset.traces())) == 2
    assert dataset.best_trace("rmsnorm_h8", {"batch_size": 4}) is not None
    assert "cannot be used" in caplog.text


def test_a_locked_index_is_not_waited_for_for_ever(
    root: Path, cache: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelmill.dataset.index._LOCK_TIMEOUT_S", 0.2)
    small(root)
    Dataset.open(root)
    write_traces(root, "a", "b")
    connection = sqlite3.connect(index_file(cache), isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    assert uuids(root) == ["a", "b"]
    assert "locked" in caplog.text
    connection.close()


def test_the_warning_reaches_standard_error(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    program = "import sys; from kernelmill.dataset import Dataset; Dataset.open(sys.argv[1], cache_dir=sys.argv[2])"
    ran = run_python(program, small(root), tmp_path / "file")
    assert ran.returncode == 0 and ran.stdout == ""
    assert "cannot be used" in ran.stderr


def test_many_processes_open_a_dataset_for_the_first_time_at_once(root: Path) -> None:
    small(root)
    add_traces(root, *({"workload": {"uuid": f"w{number}"}} for number in range(2000)))
    processes = [start_python(READ, root) for _ in range(4)]
    outputs = [process.communicate(timeout=60)[0].split() for process in processes]
    assert outputs == [[b"2001", b"2001"]] * 4


def test_a_forked_child_has_a_connection_of_its_own(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    program = """
import os, sys
from kernelmill.dataset import Dataset
dataset = Dataset.open(sys.argv[1])
child = os.fork()
assert len(list(dataset.traces())) == 2
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert len(list(dataset.traces())) == 2
"""
    ran = run_python(program, small(root))
    assert ran.returncode == 0 and ran.stderr == ""


def test_odd_values_are_indexed_or_reported_and_never_stop_the_scan(root: Path) -> None:
    small(root)
    huge = 10**400
    lines = [
        builders.raw_trace(evaluation={"performance": {"latency_ms": 0, "speedup_factor": 1}}),
        json.loads(json.dumps(builders.raw_trace()).replace('"latency_ms": 1.0', f'"latency_ms": {huge}')),
        builders.raw_trace(workload={"axes": {"batch_size": "four"}}),
        builders.raw_trace(workload={"uuid": "nul\0name"}),
        [],
        builders.raw_trace(evaluation={"verdict": "HARNESS_ERROR"}),
    ]
    write_lines(trace_file(root), lines)
    dataset = Dataset.open(root)
    read = [trace.workload.uuid for trace in dataset.traces(author="alice")]
    assert "nul\0name" in read
    assert {problem.line for problem in dataset.problems()} >= {3, 5, 6}


def test_logging_is_quiet_when_all_is_well(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="kernelmill"):
        Dataset.open(small(root))
    assert caplog.text == ""
