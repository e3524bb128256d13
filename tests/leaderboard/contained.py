"""Runs a command with a container's confinement: no capabilities, no way to new ones, and Docker's seccomp profile.

`python -m tests.leaderboard.contained PROFILE COMMAND…`. An empty PROFILE keeps every system call. What a container has
besides is not here: another root file system, other namespaces, another user.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path

import pyseccomp

PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
CAP_SETFCAP = 31
"""Root needs it to make a user namespace in which it is itself; nobody else does, and the image's user is not root."""
ALLOW = "SCMP_ACT_ALLOW"
COMPARE = {"SCMP_CMP_EQ": pyseccomp.EQ, "SCMP_CMP_NE": pyseccomp.NE}


def drop_capabilities() -> None:
    """The next exec has none: root gets no more than its bounding set holds."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0:
        for number in set(range(64)) - {CAP_SETFCAP}:
            libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def load(profile: Path) -> None:
    """A call that this library does not know by name stays forbidden."""
    read = json.loads(profile.read_text())
    filter_ = pyseccomp.SyscallFilter(pyseccomp.ERRNO(read["defaultErrnoRet"]))
    for rule in read["syscalls"]:
        assert rule["action"] == ALLOW
        arguments = [pyseccomp.Arg(each["index"], COMPARE[each["op"]], each["value"]) for each in rule.get("args", ())]
        for name in rule["names"]:
            try:
                filter_.add_rule(pyseccomp.ALLOW, name, *arguments)
            except (ValueError, RuntimeError, OSError):
                continue
    filter_.load()


def main() -> None:
    profile, *command = sys.argv[1:]
    drop_capabilities()
    if profile:
        load(Path(profile))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
