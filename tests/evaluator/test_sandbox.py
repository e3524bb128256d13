"""The sandbox from the inside: what foreign code sees, and what it may not do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelmill.evaluator.sandbox import Limits, Mount, Sandbox, SandboxUnavailable, Unsandboxed, open_sandbox, probe
from kernelmill.evaluator.sandbox import probe as probe_function
from kernelmill.evaluator.sandbox.probe import explain
from kernelmill.evaluator.sandbox.tree import Cgroup, SignalTree, open_cgroup, sweep

needs_bwrap = pytest.mark.skipif(probe_function() is not None, reason=f"no sandbox on this host: {probe_function()}")
pytestmark = needs_bwrap


def control_groups() -> bool:
    group = open_cgroup("test", memory_bytes=1 << 30, processes=10)
    if group is not None:
        group.close()
    return group is not None


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return open_sandbox("bwrap")


def sh(sandbox: Sandbox, script: str, **over: object) -> str:
    arguments: dict[str, object] = {"timeout_s": 20.0, **over}
    return sandbox.run(["/bin/bash", "-c", script], **arguments).output  # type: ignore[arg-type]


def test_it_runs_as_nobody_without_any_capability(sandbox: Sandbox) -> None:
    assert sh(sandbox, "id -u; grep CapEff /proc/self/status").split() == ["65534", "CapEff:", "0000000000000000"]


def test_it_sees_neither_home_nor_dataset_nor_other_processes(sandbox: Sandbox) -> None:
    seen = sh(sandbox, "ls /home /srv /etc/shadow 2>&1; ls -d /proc/[0-9]* | wc -l")
    assert seen.count("No such file") + seen.count("Permission denied") >= 2
    assert int(seen.split()[-1]) < 10
    found = sh(sandbox, "find / -name '*.safetensors' -o -name 'rmsnorm_h4096.json' 2>/dev/null")
    assert found == ""


@pytest.mark.parametrize(
    "path", ["/usr/x", "/x", "/dev/x", "/etc/x", "/opt/kernelmill/x", "/proc/sys/kernel/core_pattern", "/proc/self/mem"]
)
def test_it_can_write_nowhere_but_in_its_scratch(sandbox: Sandbox, path: str) -> None:
    assert "yes" not in sh(sandbox, f"(echo no > {path}) 2>/dev/null && echo yes")
    assert sh(sandbox, "echo yes > /tmp/x && cat /tmp/x").strip() == "yes"


def test_the_hosts_kernel_settings_stay_what_they_are_even_when_we_are_root(sandbox: Sandbox) -> None:
    pattern = Path("/proc/sys/kernel/core_pattern")
    before = pattern.read_text()
    sh(sandbox, "echo '|/bin/false' > /proc/sys/kernel/core_pattern; echo c > /proc/sysrq-trigger")
    assert pattern.read_text() == before


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.socket(socket.AF_INET)",
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True); assert libc.unshare(0x10000000) == 0, 'refused'",
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True); assert libc.ptrace(16, 1, 0, 0) == 0, 'refused'",
        "import os; os.kill(1, 9); open('/proc/1/mem', 'r+b')",
    ],
    ids=["network", "namespaces", "ptrace", "other memory"],
)
def test_system_calls_that_no_kernel_needs_fail(sandbox: Sandbox, code: str) -> None:
    assert sandbox.run([sys.executable, "-I", "-c", code], timeout_s=20).returncode != 0


def test_its_environment_is_a_fixed_list(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "tell-no-one")
    monkeypatch.setenv("LD_PRELOAD_X", "x")
    assert "tell-no-one" not in sh(sandbox, "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")


def test_it_may_open_few_files_and_leaves_no_memory_behind(sandbox: Sandbox) -> None:
    assert sh(sandbox, "ulimit -n; ulimit -Hn; ulimit -c; ulimit -n 4096 2>/dev/null || echo refused").split() == [
        *("512", "512", "0", "refused")
    ]


def test_what_it_prints_is_made_plain(sandbox: Sandbox) -> None:
    printed = sh(sandbox, r"printf 'a\0b\033[2J\303\274\r\n\tc'")
    assert printed == "a\\x00b\\x1b[2J\u00fc\\r\n\tc"


def test_mounts_are_read_only_unless_said_otherwise(sandbox: Sandbox, tmp_path: Path) -> None:
    for name in ("in", "out"):
        (tmp_path / name).mkdir(mode=0o777)
    mounts = [Mount(tmp_path / "in", "/in"), Mount(tmp_path / "out", "/out", writable=True)]
    sh(sandbox, "echo x > /in/f; echo y > /out/f", mounts=mounts)
    assert not (tmp_path / "in" / "f").exists()
    assert (tmp_path / "out" / "f").read_text() == "y\n"


def test_too_much_output_ends_it(sandbox: Sandbox) -> None:
    start = time.monotonic()
    done = sandbox.run(["/bin/sh", "-c", "yes"], timeout_s=30, limits=Limits(output_bytes=100_000))
    assert (done.limit, done.timed_out) == ("log", False)
    assert len(done.output) < 110_000
    assert done.output.endswith("[output truncated]\n")
    assert time.monotonic() - start < 10


def test_a_deadline_ends_it_and_everything_it_started(sandbox: Sandbox) -> None:
    done = sandbox.run(["/bin/sh", "-c", "(setsid sleep 4242 &) ; sleep 4242"], timeout_s=0.5)
    assert (done.timed_out, done.limit) == (True, "time")
    assert not any(
        b"4242" in command.read_bytes() for command in Path("/proc").glob("[0-9]*/cmdline") if _readable(command)
    )


def _readable(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


def test_a_grandchild_that_keeps_the_pipe_does_not_keep_us(sandbox: Sandbox) -> None:
    start = time.monotonic()
    done = sandbox.run(["/bin/sh", "-c", "(setsid sleep 60 &); echo gone"], timeout_s=20)
    assert done.output == "gone\n"
    assert time.monotonic() - start < 10


@pytest.mark.skipif(not control_groups(), reason="no writable control group on this host: limits are not reported")
def test_a_fork_bomb_and_a_memory_flood_meet_their_limits(sandbox: Sandbox) -> None:
    bomb = sandbox.run(["/bin/bash", "-c", ":(){ :|:& };: ; sleep 1"], timeout_s=10, limits=Limits(processes=40))
    flood = "b = bytearray(1 << 30); b[::4096] = b'x' * len(b[::4096])"
    memory = sandbox.run([sys.executable, "-I", "-c", flood], timeout_s=20, limits=Limits(memory_bytes=256 << 20))
    assert bomb.limit == "pids"
    assert memory.limit == "memory"


def test_scratch_has_a_size(sandbox: Sandbox) -> None:
    done = sandbox.run(
        ["/bin/sh", "-c", "dd if=/dev/zero of=/tmp/f bs=1M count=64; dd if=/dev/zero of=/dev/shm/f bs=1M count=64"],
        timeout_s=20,
        limits=Limits(scratch_bytes=8 << 20),
    )
    assert done.output.count("No space left on device") == 2


def signal_tree(pid: int) -> SignalTree:
    return SignalTree(pid)


@pytest.mark.parametrize("make", [None, signal_tree], ids=["control group", "signals"])
def test_a_frozen_tree_does_nothing_and_goes_on_when_thawed(
    sandbox: Sandbox, make: Callable[[int], SignalTree] | None, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    script = "while :; do echo x >> /out/f; sleep 0.002; done & while :; do echo y >> /out/g; sleep 0.002; done"
    process = sandbox.spawn(["/bin/bash", "-c", script], mounts=[Mount(tmp_path, "/out", writable=True)])
    tree = make(process.popen.pid) if make else process.tree
    try:
        _wait_for(lambda: (tmp_path / "g").exists() and (tmp_path / "f").exists())
        tree.freeze()
        before = [(tmp_path / name).stat().st_size for name in "fg"]
        time.sleep(0.1)
        assert [(tmp_path / name).stat().st_size for name in "fg"] == before
        tree.thaw()
        _wait_for(lambda: all((tmp_path / n).stat().st_size > size for n, size in zip("fg", before, strict=True)))
    finally:
        process.close()


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_closing_leaves_no_control_group_behind(sandbox: Sandbox) -> None:
    process = sandbox.spawn(["/bin/sleep", "60"])
    entries = process.tree.entries if isinstance(process.tree, Cgroup) else []
    assert all(entry.exists() for entry in entries)
    process.close()
    assert not any(entry.exists() for entry in entries)


def test_control_groups_of_a_judge_that_was_killed_are_swept_up() -> None:
    child = subprocess.Popen(["/bin/true"])
    child.wait()
    stale = open_cgroup("orphan", memory_bytes=1 << 30, processes=10, owner=child.pid)
    if stale is None:
        pytest.skip("no writable control group on this host")
    sweep()
    assert all(entry.exists() for entry in stale.entries)  # too young: it may be starting
    sweep(older_than_s=-1)
    assert not any(entry.exists() for entry in stale.entries)


def test_file_descriptors_are_passed_and_no_others(sandbox: Sandbox) -> None:
    secret = os.open("/etc/hostname", os.O_RDONLY)
    lent = os.memfd_create("lent")
    os.write(lent, b"hello")
    os.set_inheritable(secret, True)
    process = sandbox.spawn(["/bin/bash", "-c", f"ls /proc/self/fd; cat /proc/self/fd/{lent} || true"], fds=[lent])
    done = process.finish(10)
    os.close(secret)
    assert str(lent) in done.output.split()
    assert str(secret) not in done.output.split()


def test_a_host_without_namespaces_is_told_apart_and_foreign_code_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from kernelmill.evaluator.sandbox import bubblewrap

    refusing = tmp_path / "bwrap"
    refusing.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace: Operation not permitted' >&2\nexit 1\n"
    )
    refusing.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "bwrap_path", lambda: refusing)
    probe.cache_clear()
    try:
        with pytest.raises(SandboxUnavailable, match=r"namespaces are forbidden here.*--sandbox none"):
            open_sandbox("bwrap")
    finally:
        probe.cache_clear()


@pytest.mark.parametrize(
    ("switch", "value", "command"),
    [
        ("APPARMOR", "1", "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
        ("USERNS_CLONE", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
        ("USERNS_MAX", "0", "sysctl -w user.max_user_namespaces=15000"),
    ],
)
def test_the_cause_is_named_with_the_command_that_lifts_it(
    switch: str, value: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernelmill.evaluator.sandbox import probe as _  # noqa: F401  (the function; the module is fetched below)

    module = sys.modules["kernelmill.evaluator.sandbox.probe"]
    for name in ("APPARMOR", "USERNS_CLONE", "USERNS_MAX"):
        (tmp_path / name).write_text("1" if name != "APPARMOR" else "0")
        monkeypatch.setattr(module, name, tmp_path / name)
    (tmp_path / switch).write_text(value)
    assert command in explain("bwrap: failed")


def test_no_sandbox_must_be_asked_for_by_name() -> None:
    assert isinstance(open_sandbox("none"), Unsandboxed)
    assert open_sandbox("none").kind == "none"
