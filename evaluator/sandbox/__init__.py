"""Where foreign code runs: bubblewrap with every namespace unshared, or nowhere.

`open_sandbox("bwrap")` refuses where namespaces are forbidden, naming the cause and the command that lifts it.
`open_sandbox("none")` must be asked for by name and is written into every trace.
"""

from __future__ import annotations

from kernelmill.evaluator.sandbox.base import Completed, Limits, Mount, Process, Sandbox, plain
from kernelmill.evaluator.sandbox.bubblewrap import Bubblewrap
from kernelmill.evaluator.sandbox.probe import SandboxUnavailable, open_sandbox, probe
from kernelmill.evaluator.sandbox.unsandboxed import Unsandboxed

__all__ = [
    "Bubblewrap",
    "Completed",
    "Limits",
    "Mount",
    "Process",
    "Sandbox",
    "SandboxUnavailable",
    "Unsandboxed",
    "open_sandbox",
    "plain",
    "probe",
]
