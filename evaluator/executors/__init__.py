"""Runs spread over many devices: a child process that owns each device of this host, or a Ray cluster.

The parent plans, saves and tells; a child judges. What passes between them is one JSON object a line, never a pickle.
"""

from __future__ import annotations

from kernelmill.evaluator.executors.base import Charge, Executor, Seen, Unit
from kernelmill.evaluator.executors.local import LocalExecutor
from kernelmill.evaluator.executors.ray import RayExecutor
from kernelmill.evaluator.executors.spread import Spread, split

__all__ = ["Charge", "Executor", "LocalExecutor", "RayExecutor", "Seen", "Spread", "Unit", "split"]
