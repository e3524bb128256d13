"""Runs the naive harness where it can do no harm: a bubblewrap sandbox with a PID namespace, a loopback of its own,
a read-only root and memory limits. One warm process per cage forks a parent per job, so a job costs no import of torch.

`Cage` is the test's side; `serve` is the process inside.
"""

from __future__ import annotations

import json
import os
import resource
import secrets
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
SEED = 42
MEMORY_LIMIT_BYTES = 4 << 30
SCRATCH_BYTES = 256 << 20
SCRATCH = (Path("/tmp"), Path("/dev/shm"))
KEPT = {"build"}


@dataclass(frozen=True)
class Report:
    """What the naive harness believes (`correct` and times) and what was seen from outside it."""

    outcome: str
    """`result`: a verdict arrived; `died`: the harness ended without one; `hung`: it still ran at the deadline."""
    correct: bool = False
    latency_ms: float = 0.0
    baseline_ms: float = 0.0
    finished: bool = False
    """The harness's own code had come to its end when the verdict arrived; False under a verdict means a forged one."""
    log: str = ""
    log_bytes: int = 0
    processes: int = 0
    rss_bytes: int = 0
    disk_full: bool = False
    connections: int = 0

    @property
    def speedup(self) -> float:
        return self.baseline_ms / self.latency_ms


def bubblewrap() -> list[str]:
    from kernelmill.evaluator.sandbox.bubblewrap import bwrap_path

    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
        "OMP_WAIT_POLICY": "passive",
        "NAIVE_SEED": str(SEED),
    }
    scratch = [part for path in SCRATCH for part in ("--size", str(SCRATCH_BYTES), "--tmpfs", str(path))]
    return [
        *(str(bwrap_path()), "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--die-with-parent"),
        *("--new-session", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *scratch),
        *("--chdir", "/tmp", "--clearenv", *(part for item in environment.items() for part in ("--setenv", *item))),
    ]


def own_namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())


def why_not() -> str | None:
    """Why no cage can be made on this host; None where it can."""
    if any(ROOT.is_relative_to(hidden) for hidden in SCRATCH):
        return f"the repository lies in {ROOT}, which the cage covers; try it elsewhere"
    trial = subprocess.run([*bubblewrap(), "true"], capture_output=True, text=True, check=False)
    return None if trial.returncode == 0 else f"bubblewrap cannot make namespaces here: {trial.stderr.strip()}"


class Cage:
    """Used as a context manager; `run` starts the warm process anew whenever a job destroyed it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._mark = ""

    def __enter__(self) -> Cage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, job: dict[str, Any], *, timeout_s: float = 30.0, keep_state: bool = False) -> Report:
        token = secrets.token_hex(8)
        request = {**job, "seed": SEED, "token": token, "timeout_s": timeout_s, "keep_state": keep_state}
        process = self._started()
        assert process.stdin and process.stdout
        process.stdin.write(f"{self._mark}{json.dumps(request)}\n".encode())
        process.stdin.flush()
        line = read_marked_line(process.stdout, token, timeout_s + 2)
        if line is None:
            self.close()
            return Report("died")
        return Report(**json.loads(line))

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._mark = secrets.token_hex(8)
            inner = [
                sys.executable,
                "-P",
                "-m",
                "tests.submissions.naive",
                own_namespace(),
                self._mark,
            ]
            command = [*bubblewrap(), *inner]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        return self._process


def read_marked_line(pipe: IO[bytes], token: str, timeout_s: float) -> str | None:
    """The text after `token` on its line, whatever a job wrote around it; None at end of file or after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    mark, seen = token.encode(), b""
    while time.monotonic() < deadline:
        if not select.select([pipe], [], [], deadline - time.monotonic())[0]:
            continue
        chunk = os.read(pipe.fileno(), 1 << 16)
        if not chunk:
            return None
        seen += chunk
        start = seen.find(mark)
        if start >= 0 and b"\n" in seen[start:]:
            return seen[start + len(mark) :].split(b"\n", 1)[0].decode()
    return None


def serve(evaluate: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Inside the cage: one marked job a line on stdin, one marked report a line on stdout, a clean slate between them.

    Only marked text counts, as foreign code writes into every pipe that it can reach.
    """
    if own_namespace() == sys.argv[1]:
        raise SystemExit("this process kills everything that it sees: run it in a PID namespace of its own")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    replies = os.dup(1)
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        _, found, text = line.partition(sys.argv[2].encode())
        if not found:
            continue
        job = json.loads(text)
        if not job["keep_state"]:
            wipe_scratch()
        report = run_job(evaluate, job, replies)
        kill_everything_else()
        os.write(replies, f"{job['token']}{json.dumps(report)}\n".encode())


def run_job(evaluate: Callable[[dict[str, Any]], dict[str, Any]], job: dict[str, Any], replies: int) -> dict[str, Any]:
    report_read, report_write = os.pipe()
    if os.fork() == 0:
        os.close(replies)
        report = evaluate({**job, "report_fd": report_write})
        os.write(report_write, f"{job['token']}{json.dumps(report)}\n".encode())
        os._exit(0)
    os.close(report_write)
    started = time.monotonic()
    with os.fdopen(report_read, "rb") as pipe:
        line = read_marked_line(pipe, job["token"], job["timeout_s"])
    if line is not None:
        report = json.loads(line)
        return {"outcome": "result" if "latency_ms" in report else "died", **report}
    return {"outcome": "hung" if time.monotonic() - started >= job["timeout_s"] else "died"}


def kill_everything_else() -> None:
    """Every process of this namespace but its first and this one; loops, as a dying one may still fork."""
    while True:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            return
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        time.sleep(0.005)


def wipe_scratch() -> None:
    for directory in SCRATCH:
        for entry in directory.iterdir():
            if entry.name in KEPT:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
