"""`kernelmill run` as a person uses it: what it prints, saves, skips and refuses, and with which exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelmill.dataset import Dataset
from kernelmill.evaluator.sandbox import probe
from kernelmill.evaluator.sandbox.bubblewrap import bwrap_path
from kernelmill.trace_schema import Solution, Trace
from tests.builders import raw_definition, raw_solution, raw_workload

pytestmark = pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")

WRONG = "def run(hidden_states, weight, output):\n    output.zero_()\n"


class Command:
    """The command line with a dataset, a cache and an environment of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "dataset"
        self.env = {**os.environ, "KERNELMILL_CACHE": str(folder / "cache"), "KERNELMILL_DATASET": ""}

    def add(self, kind: str, path: str, *records: Any) -> None:
        file = self.root / kind / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(r if isinstance(r, str) else json.dumps(r) + "\n" for r in records))

    def solution(self, name: str, author: str = "alice", **over: Any) -> None:
        raw = raw_solution(name=name, author=author, **over)
        self.add("solutions", f"{author}/rmsnorm/rmsnorm_h8/{name}.json", raw)

    def run(self, *arguments: str, wrap: tuple[str, ...] = (), **env: str) -> subprocess.CompletedProcess[str]:
        command = [*wrap, sys.executable, "-P", "-m", "kernelmill", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=300, check=False, env={**self.env, **env}
        )


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """One definition with two workloads, a baseline and nothing else."""
    made = Command(tmp_path)
    made.add("definitions", "rmsnorm/rmsnorm_h8.json", raw_definition())
    lines = [
        {
            "definition": "rmsnorm_h8",
            "solution": None,
            "evaluation": None,
            "workload": raw_workload(uuid=f"w{rows}", axes={"batch_size": rows}),
        }
        for rows in (2, 3)
    ]
    made.add("workloads", "rmsnorm/rmsnorm_h8.jsonl", *lines)
    made.solution("torch_norm", author="baseline")
    return made


def traces(text: str) -> Iterator[Trace]:
    for line in text.splitlines():
        yield Trace.model_validate_json(line)


def test_it_saves_what_it_prints_and_a_second_run_resumes(command: Command) -> None:
    command.solution("wrong", source=WRONG)
    first = command.run("run", str(command.root), "--json")
    assert first.returncode == 0, first.stderr
    printed = list(traces(first.stdout))
    assert sorted((t.solution, t.workload.uuid, str(t.effective_verdict)) for t in printed) == [
        ("torch_norm", "w2", "PASSED"),
        ("torch_norm", "w3", "PASSED"),
        ("wrong", "w2", "INCORRECT_NUMERICAL"),
        ("wrong", "w3", "INCORRECT_NUMERICAL"),
    ]
    saved = list(Dataset.open(command.root, cache_dir=command.root.parent / "cache").traces())
    assert sorted(t.model_dump_json() for t in saved) == sorted(t.model_dump_json() for t in printed)

    again = command.run("run", str(command.root), "--resume", "--json")
    assert (again.returncode, again.stdout) == (0, "")
    assert "nothing to evaluate" in again.stderr

    command.solution("wrong", source=WRONG + "# another content\n")
    changed = command.run("run", str(command.root), "--resume", "-s", "wrong")
    assert changed.returncode == 0
    assert changed.stdout.count("INCORRECT_NUMERICAL") == 2


def test_filters_choose_and_no_save_saves_nothing(command: Command) -> None:
    command.solution("other")
    done = command.run(
        "run", str(command.root), "-d", "rmsnorm_h8", "--author", "alice", "--op-type", "rmsnorm", "--no-save"
    )
    assert done.returncode == 0, done.stderr
    assert "torch_norm  [" not in done.stdout
    assert done.stdout.count("PASSED") == 2
    assert not (command.root / "traces").exists()
    assert f"dataset: {command.root}" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-d", "rmsnorm_h9"), "rmsnorm_h8"),
        (("-s", "torch_nrom"), "torch_norm"),
        (("--device", "cuda"), "use --device cpu"),
        (("--device", "cpu,cpu"), "names cpu twice"),
        (("--device", "cpu,cuda:99"), "device 'cuda:99' cannot be used"),
        (("--executor", "ray", "--ray-address", "127.0.0.1:1"), "no Ray cluster is reached at 127.0.0.1:1"),
        (("--sandbox", "docker"), "docker"),
    ],
)
def test_what_is_not_there_is_named_with_what_is(arguments: tuple[str, ...], message: str, command: Command) -> None:
    done = command.run("run", str(command.root), *arguments)
    assert done.returncode in (1, 2), done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_bad_files_are_named_and_hide_nothing(command: Command) -> None:
    command.add("definitions", "rmsnorm/broken.json", "{ not json")
    raw = raw_solution(name="no_entry", spec={"entry_point": "missing.py::run"})
    command.add("solutions", "alice/rmsnorm/rmsnorm_h8/no_entry.json", raw)
    command.add("solutions", "alice/rmsnorm/unknown/lost.json", raw_solution(name="lost", definition="unknown"))
    done = command.run("run", str(command.root))
    assert done.returncode == 2
    assert done.stdout.count("PASSED") == 2
    assert "definitions/rmsnorm/broken.json" in done.stderr
    assert "no_entry.json" in done.stderr
    assert "missing.py" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_dataset_that_is_not_there(command: Command) -> None:
    done = command.run("run", str(command.root / "nowhere"))
    assert (done.returncode, "there is no dataset at" in done.stderr) == (2, True)


def test_a_dataset_that_cannot_be_written_is_refused_before_any_work(command: Command) -> None:
    wrap = (str(bwrap_path()), "--dev-bind", "/", "/", "--ro-bind", str(command.root), str(command.root), "--")
    done = command.run("run", str(command.root), wrap=wrap)
    assert done.returncode == 2, done.stderr
    assert "traces cannot be written below" in done.stderr
    assert "--no-save" in done.stderr


def test_a_missing_compiler_is_our_trouble_and_not_the_authors(command: Command, tmp_path: Path) -> None:
    command.solution(
        "native",
        spec={"language": "cpp", "entry_point": "k.cpp::run"},
        sources=[{"path": "k.cpp", "content": "int x;\n"}],
    )
    done = command.run("run", str(command.root), PATH=str(tmp_path))
    assert done.returncode == 1, done.stderr
    assert "g++" in done.stderr
    assert done.stdout.count("PASSED") == 2
    saved = Dataset.open(command.root, cache_dir=tmp_path / "cache").traces(solution="native")
    assert list(saved) == []


def test_a_language_of_another_host_is_skipped_with_a_notice(command: Command) -> None:
    command.solution(
        "gpu", spec={"language": "cuda", "entry_point": "k.cu::run"}, sources=[{"path": "k.cu", "content": "x"}]
    )
    done = command.run("run", str(command.root), "-s", "gpu")
    assert (done.returncode, done.stdout) == (0, "")
    assert "skipped" in done.stderr
    assert "needs an NVIDIA GPU; on a host that has one: kernelmill run --device cuda" in done.stderr


def test_where_namespaces_are_forbidden_foreign_code_is_refused(command: Command, tmp_path: Path) -> None:
    forbid = (str(bwrap_path()), "--dev-bind", "/", "/", "--unshare-user", "--disable-userns", "--")
    done = command.run("run", str(command.root), wrap=forbid)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the sandbox does not work on this host" in done.stderr
    assert "No foreign code is run without it" in done.stderr
    trusted = command.run("run", str(command.root), "--sandbox", "none", "--json", wrap=forbid)
    assert trusted.returncode == 0, trusted.stderr
    assert {t.evaluation.environment.sandbox for t in traces(trusted.stdout) if t.evaluation} == {"none"}


def test_traces_made_before_a_kill_are_kept(command: Command) -> None:
    command.solution("hangs", source="import time\ndef run(*a):\n    time.sleep(600)\n")
    running = subprocess.Popen(
        [sys.executable, "-P", "-m", "kernelmill", "run", str(command.root), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=command.env,
    )
    assert running.stdout is not None
    first = running.stdout.readline()
    running.kill()
    running.wait()
    running.stdout.close()
    saved = list(Dataset.open(command.root, cache_dir=command.root.parent / "cache").traces())
    assert Trace.model_validate_json(first) in saved


def test_pack_and_unpack_from_the_shell(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text(json.dumps(raw_solution()))
    folder = command.run("unpack", str(file), "--into", str(tmp_path)).stdout.strip()
    packed = command.run("pack", folder)
    assert Solution.model_validate_json(packed.stdout).hash() == Solution.model_validate(raw_solution()).hash()
    assert command.run("pack", str(tmp_path)).returncode == 2
