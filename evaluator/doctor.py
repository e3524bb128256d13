"""What works on this host: one function a check, each with the way out when it does not."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from kernelmill.evaluator import machine
from kernelmill.evaluator.builders import Builder, UnsupportedHere, builders_for, check_builder
from kernelmill.evaluator.devices import Device, open_device
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.evaluator.sandbox import open_sandbox, probe
from kernelmill.evaluator.sandbox.tree import open_cgroup
from kernelmill.trace_schema import Definition, Workload
from kernelmill.trace_schema.errors import KernelMillError

MIN_TORCH = (2, 8)
CLOCK_LIMIT_US = 2000.0
DOUBLE = Definition.model_validate(
    {
        "name": "double",
        "op_type": "self_test",
        "axes": {"n": {"type": "var"}},
        "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
        "outputs": {"out": {"shape": ["n"], "dtype": "float32"}},
        "reference": "def run(x):\n    return 2 * x\n",
    }
)
DOUBLE_WORKLOAD = Workload.model_validate(
    {"uuid": "self-test", "axes": {"n": 1000}, "inputs": {"x": {"type": "random"}}}
)


class Check(NamedTuple):
    """One line of the report."""

    name: str
    status: Literal["ok", "warn", "fail"]
    """warn: something optional is missing, or measured less well"""
    detail: str
    remedy: str = ""


def examine() -> Iterator[Check]:
    """Every check, the quick ones first."""
    for check in (check_python, check_torch, check_sandbox, check_freezer, check_clock, check_device):
        yield check()
    for builder in builders_for("cpu"):
        yield check_language(builder)
    yield from check_gpu()
    for engine in ("flashinfer", "vllm", "sglang", "ray"):
        yield check_package(engine)


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Check:
    text = ".".join(map(str, version))
    if (3, 11) <= version[:2] <= (3, 13):
        return Check("python", "ok", text)
    return Check("python", "fail", f"{text} is not supported", "use Python 3.11, 3.12 or 3.13")


def check_torch(version: str | None = None) -> Check:
    version = machine.metadata_version("torch") if version is None else version
    if not version:
        return Check("torch", "fail", "not installed", "pip install 'torch>=2.8'")
    if tuple(int(part) for part in version.split("+")[0].split(".")[:2]) < MIN_TORCH:
        return Check("torch", "fail", f"{version} is too old", "pip install 'torch>=2.8'")
    return Check("torch", "ok", version)


def check_sandbox(find: Callable[[], str | None] = probe) -> Check:
    problem = find()
    if problem is None:
        return Check("sandbox", "ok", "bubblewrap, all namespaces unshared, system calls filtered")
    return Check("sandbox", "fail", problem, "until then only --sandbox none works, for code that you trust")


def check_freezer(make: Callable[[], object | None] | None = None) -> Check:
    """A control group freezes in microseconds and enforces limits; signals do it more slowly and less exactly."""
    group = make() if make else open_cgroup("doctor", memory_bytes=1 << 30, processes=64)
    if group is None:
        return Check(
            "freezer",
            "warn",
            "no writable control group: workers are stopped by signals, memory and processes are limited less exactly",
            "run as root, or start under: systemd-run --user --scope -p Delegate=yes",
        )
    group.close()  # type: ignore[attr-defined]
    return Check("freezer", "ok", "control groups: freeze, memory and process limits")


def check_clock(measure: Callable[[], float] | None = None) -> Check:
    """How long a round trip between two processes takes: the least that a judged call can show."""
    microseconds = (measure or _round_trip_us)()
    if microseconds <= CLOCK_LIMIT_US:
        return Check("clock", "ok", f"a round trip between processes takes {microseconds:.0f} us")
    return Check(
        "clock",
        "warn",
        f"a round trip between processes takes {microseconds:.0f} us: small kernels cannot be told apart",
        "stop other load on this machine",
    )


def _round_trip_us(rounds: int = 200) -> float:
    there, back = os.pipe(), os.pipe()
    child = os.posix_spawn(
        "/bin/cat", ["cat"], {}, file_actions=[(os.POSIX_SPAWN_DUP2, there[0], 0), (os.POSIX_SPAWN_DUP2, back[1], 1)]
    )
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        os.write(there[1], b"x")
        os.read(back[0], 1)
        times.append(time.perf_counter() - start)
    os.kill(child, 9)
    os.waitpid(child, 0)
    for fd in (*there, *back):
        os.close(fd)
    return sorted(times)[rounds // 2] * 1e6


def check_device() -> Check:
    return Check("device", "ok", machine.cpu_name())


def check_gpu() -> Iterator[Check]:
    """A GPU and the languages for it, where there is one."""
    if not os.path.exists("/dev/nvidiactl"):  # noqa: PTH110
        return
    try:
        device = open_device("cuda")
    except KernelMillError as error:
        yield Check("gpu", "fail", "an NVIDIA driver is here, but no GPU can be judged on", str(error))
        return
    try:
        yield Check("gpu", "ok", f"{device.model}, {device.target}")
        for builder in builders_for(device.target)[1:5]:
            yield check_language(builder, device)
    finally:
        device.close()


def check_language(builder: Builder, device: Device | None = None) -> Check:
    """Build the builder's example and have it judged, sandbox and all."""
    name = f"language {builder.name}"
    problem = builder.available()
    if problem:
        return Check(name, "warn" if builder.optional else "fail", "does not work here", problem)
    try:
        fault = check_builder(
            builder,
            open_sandbox(),
            run=lambda _: _judge_example(builder, device),
            target=device.target if device else "cpu",
        )
    except UnsupportedHere as error:
        return Check(name, "warn", str(error))
    except KernelMillError as error:
        fault = str(error)
    if fault:
        return Check(name, "fail", "its example does not pass", fault)
    return Check(name, "ok", "its example builds and passes" + ("" if builder.timed else " (verdict only, not timed)"))


def _judge_example(builder: Builder, device: Device | None) -> str | None:
    from kernelmill.evaluator.run import Forge

    forge = Forge(JudgeOptions(sessions=1, pairs=4, seconds=0.1), device)
    for trace in forge.sitting(DOUBLE, None, None).traces([(forge.build(builder.example), DOUBLE_WORKLOAD)]):
        assert trace.evaluation is not None
        if not trace.passed:
            return f"{trace.evaluation.effective_verdict}: {trace.evaluation.reason}"
    return None


def check_package(name: str) -> Check:
    if importlib.util.find_spec(name) is None:
        return Check(name, "warn", "not installed (optional)")
    return Check(name, "ok", machine.metadata_version(name) or "installed")
