"""How thoroughly to judge. The defaults are what a trace on the board is made with."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kernelmill.evaluator.sandbox import Limits
from kernelmill.evaluator.statistics import MIN_PAIRS

JUDGE_VERSION = "1.0"
"""Its first number changes when a verdict or a time would change; board editions pin it."""


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """Counts and deadlines of one evaluation."""

    sessions: int = 3
    """Measurement sessions: each has fresh workers for the solution and for the baseline."""
    warmups: int = 2
    """Calls of a session that are verified like any other and whose times are dropped."""
    pairs: int = 16
    """At most this many timed pairs (solution, baseline) a session."""
    pairs_min: int = 4
    seconds: float = 0.9
    """Aim at this much wall time a workload, all sessions together, once `pairs_min` is reached."""
    burst_pairs: int = 12
    burst_pairs_min: int = 3
    burst_seconds: float = 0.06
    """The same where calls are timed in bursts: a pair is two bursts of each; the time is for each solution."""
    verified: int = 3
    """Input sets a workload with an exact reference answer, met by each session at secret places."""
    timeout_s: float = 30.0
    """Deadline of one call."""
    start_timeout_s: float = 60.0
    """Deadline of starting a worker and loading the solution."""
    build_timeout_s: float = 300.0
    limits: Limits = field(default_factory=Limits)
    sandbox: Literal["bwrap", "none"] = "bwrap"
    """none: run foreign code as ourselves. The trace says so, and no board takes it."""
    cache: Path | None = None
    """Where builds are kept; the settings' cache folder if unset."""

    @property
    def rounds_min(self) -> int:
        """Pairs of bursts that a session has at least: all together are enough for an interval."""
        return max(self.burst_pairs_min, math.ceil(MIN_PAIRS / self.sessions))
