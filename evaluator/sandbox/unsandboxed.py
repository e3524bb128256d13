"""No sandbox: the command runs as we do. For code that one trusts, on hosts where nothing else works."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelmill.evaluator.sandbox.base import DEFAULT_LIMITS, Completed, Limits, Mount, Process, base_env, run_module
from kernelmill.evaluator.sandbox.bubblewrap import ENTER, memfd
from kernelmill.evaluator.sandbox.tree import SignalTree, open_cgroup


class Unsandboxed:
    """Sandbox kind "none". Deadlines, output cap, freezing and killing are the same; isolation is not there."""

    kind = "none"

    def inside(self, mount: Mount) -> str:
        return str(mount.source)

    def python(self, module: str) -> list[str]:
        return run_module(str(Path(__file__).resolve().parents[2]), module)

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
        group = open_cgroup(secrets.token_hex(8), memory_bytes=limits.memory_bytes, processes=limits.processes)
        entries = [str(path) for path in group.entries] if group else []
        with memfd("stdin", stdin) as stdin_file:
            popen = subprocess.Popen(
                ["/bin/sh", "-c", ENTER, "sh", *entries, "--", *argv],
                stdin=stdin_file,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=list(fds),
                env=base_env(env),
                start_new_session=True,
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
