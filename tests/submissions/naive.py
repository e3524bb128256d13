"""A naive evaluator, of the kind that is common in the field: what every cheat of the corpus is shown to beat.

It is wrong on purpose, and in the usual places:
- the solution is imported into the process that holds the inputs, the expected outputs, the check and the clock;
- it is checked once, and afterwards timed on the very same tensors, with a clock that the solution can replace;
- outputs are `torch.empty`, after the reference ran; the check is one `allclose` at 1e-2, over `zip`, in float32;
- the reference lies beside the solution on disk, expected outputs are cached in a file, and runs share a directory;
- the seed is in the environment of the parent; the result comes back as a pickle over an inherited pipe;
- the parent reads the log without a limit, waits for its end, and believes whatever result arrives first.

Run it only through `tests.submissions.cage`, which gives it a PID namespace and limits of its own.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib
import importlib.util
import json
import mmap
import os
import pickle
import socket
import statistics
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

RUN = Path("/tmp/run")
BUILD = Path("/tmp/build")
ANSWER_PORT = 47811
TIMED_CALLS = 40
FINISHED = b"finished"

Job = dict[str, Any]


# --- what the field's harness does, inside the process that also runs the solution ---


def make_inputs(job: Job) -> list[Any]:
    definition, workload = job["definition"], job["workload"]
    axes = {name: axis.get("value", workload["axes"].get(name)) for name, axis in definition["axes"].items()}
    generator = torch.Generator().manual_seed(job["seed"])
    inputs: list[Any] = []
    for name, tensor in definition["inputs"].items():
        given = workload["inputs"][name]
        if given["type"] == "scalar":
            inputs.append(given["value"])
        else:
            shape = [axes[axis] for axis in tensor["shape"]]
            inputs.append(torch.randn(shape, generator=generator) * given["distribution"]["std"])
    return inputs


def make_outputs(job: Job) -> list[torch.Tensor]:
    definition, workload = job["definition"], job["workload"]
    axes = {name: axis.get("value", workload["axes"].get(name)) for name, axis in definition["axes"].items()}
    return [torch.empty([axes[axis] for axis in tensor["shape"]]) for tensor in definition["outputs"].values()]


def as_list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def load_solution(job: Job) -> Callable[..., Any]:
    file, symbol = job["entry_point"].split("::")
    if job["language"] == "cpp":
        import tvm_ffi

        return getattr(tvm_ffi.load_module(str(RUN / "solution.so")), symbol)  # type: ignore[no-any-return]
    spec = importlib.util.spec_from_file_location("solution", RUN / "solution" / file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["solution"] = module
    spec.loader.exec_module(module)
    return getattr(module, symbol)  # type: ignore[no-any-return]


def timed(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - start


def measure(function: Callable[..., Any], arguments: Sequence[Any]) -> float:
    """Mean milliseconds of a call: what it was slowed by counts, however few calls bore it."""
    return statistics.mean(timed(function, arguments)[1] for _ in range(TIMED_CALLS)) * 1e3


def check(outputs: list[Any], expected: list[torch.Tensor], kind: str) -> bool:
    for output, answer in zip(outputs, expected, strict=False):
        if kind == "max_error":
            error = (output.float() - answer.float()).abs().max()
            if error > 1e-2:
                return False
        elif not torch.allclose(output.float(), answer.float(), rtol=1e-2, atol=1e-2):
            return False
    return True


def note(text: str) -> None:
    print(f"[{time.perf_counter():.6f}] {text}", flush=True)


def harness(job: Job, inputs: list[Any], result_fd: int, finished: mmap.mmap) -> None:
    """Load, run the reference, check once, time, and send the result."""
    torch.set_num_threads(job["threads"])
    solution = load_solution(job)
    reference = importlib.import_module("reference").run
    expected = as_list(reference(*inputs))
    baseline_ms = measure(reference, inputs)
    outputs = make_outputs(job) if job["destination_passing_style"] else []
    arguments = [*inputs, *outputs]
    result, _ = timed(solution, arguments)
    time.sleep(0.05)  # let the machine settle before the check
    note("checking")
    correct = check(outputs or as_list(result), expected, job["check"])
    latency_ms = measure(solution, arguments)
    finished[: len(FINISHED)] = FINISHED
    os.write(result_fd, pickle.dumps({"correct": correct, "latency_ms": latency_ms, "baseline_ms": baseline_ms}))


# --- the parent ---


def write_run_directory(job: Job, expected: list[torch.Tensor]) -> None:
    (RUN / "solution").mkdir(parents=True, exist_ok=True)
    (RUN / "reference.py").write_text(job["definition"]["reference"])
    cached = {f"output_{index}": answer.contiguous() for index, answer in enumerate(expected)}
    save_file(cached, str(RUN / "expected.safetensors"))
    for source in job["sources"]:
        path = RUN / "solution" / source["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source["content"])
    sys.path[:0] = [str(RUN), str(RUN / "solution")]
    os.chdir(RUN)


def compile_cpp(job: Job, log_fd: int) -> None:
    """Builds solution.so with the compiler seeing the whole host; the compiler's messages go to the log."""
    from tvm_ffi import libinfo

    source = RUN / "solution" / job["entry_point"].split("::")[0]
    BUILD.mkdir(exist_ok=True)
    library = BUILD / f"{hashlib.sha256(source.read_bytes()).hexdigest()}.so"
    if not library.exists():
        headers = [f"-I{libinfo.find_include_path()}", f"-I{libinfo.find_dlpack_include_path()}"]
        flags = ["-O3", "-march=native", "-std=c++17", "-fPIC", "-shared", "-pthread"]
        subprocess.run(["g++", *flags, *headers, source, "-o", library], stdout=log_fd, stderr=log_fd, check=False)
    (RUN / "solution.so").unlink(missing_ok=True)
    (RUN / "solution.so").symlink_to(library)


def serve_answers(answer: bytes, connections: list[bytes]) -> None:
    """Somebody else's machine, out on the network, that knows the answer."""
    server = socket.create_server(("127.0.0.1", ANSWER_PORT))

    def accept() -> None:
        while True:
            peer, _ = server.accept()
            connections.append(peer.recv(64))
            peer.sendall(answer)
            peer.close()

    threading.Thread(target=accept, daemon=True).start()


def watch_processes(peak: list[int]) -> None:
    while True:
        peak[0] = max(peak[0], sum(name.isdigit() for name in os.listdir("/proc")))  # noqa: PTH208
        time.sleep(0.01)


def fork_harness(job: Job, inputs: list[Any], result_fd: int, log_fd: int, finished: mmap.mmap) -> int:
    child = os.fork()
    if child:
        os.close(result_fd)
        os.close(log_fd)
        return child
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    os.close(log_fd)
    os.close(job["report_fd"])
    code = 1
    try:
        harness(job, inputs, result_fd, finished)
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        os._exit(code)


def evaluate(job: Job) -> dict[str, Any]:
    """One run: what the parent believes, and what it cost the machine."""
    torch.set_num_threads(1)  # a pool of threads would not survive the fork
    os.environ.pop("NAIVE_SEED", None)
    inputs = make_inputs(job)
    scope: dict[str, Any] = {}
    exec(job["definition"]["reference"], scope)
    expected = as_list(scope["run"](*inputs))
    write_run_directory(job, expected)
    result_read, result_write = os.pipe()
    log_read, log_write = os.pipe()
    page = os.memfd_create("finished")
    os.ftruncate(page, mmap.PAGESIZE)
    finished = mmap.mmap(page, mmap.PAGESIZE)
    if job["language"] == "cpp":
        compile_cpp(job, log_write)
    child = fork_harness(job, inputs, result_write, log_write, finished)

    log: list[bytes] = []
    peak = [0]
    connections: list[bytes] = []
    reader = threading.Thread(target=lambda: log.append(os.fdopen(log_read, "rb").read()))
    reader.start()
    threading.Thread(target=watch_processes, args=(peak,), daemon=True).start()
    serve_answers(expected[0].numpy().tobytes(), connections)
    verdict = read_verdict(result_read)
    harness_finished = finished[: len(FINISHED)] == FINISHED
    reader.join()
    usage = os.wait4(child, 0)[2]
    return {
        **verdict,
        "finished": harness_finished,
        "log": log[0][-4000:].decode(errors="replace"),
        "log_bytes": len(log[0]),
        "processes": peak[0],
        "rss_bytes": usage.ru_maxrss * 1024,
        "disk_full": disk_is_full(),
        "connections": len(connections),
    }


def read_verdict(result_fd: int) -> dict[str, Any]:
    try:
        with os.fdopen(result_fd, "rb") as pipe:
            return dict(pickle.load(pipe))
    except (EOFError, pickle.UnpicklingError):
        return {}


def disk_is_full() -> bool:
    try:
        (RUN / "result.json").write_bytes(json.dumps({}).encode() + b" " * (1 << 20))
    except OSError:
        return True
    return False


if __name__ == "__main__":
    from tests.submissions.cage import serve

    serve(evaluate)
