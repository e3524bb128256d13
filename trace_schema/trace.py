"""Trace: one line of a dataset, a workload alone or with a solution's evaluation on it."""

from __future__ import annotations

from kernelmill.trace_schema.base import Model, Text
from kernelmill.trace_schema.evaluation import Evaluation, Status, Verdict
from kernelmill.trace_schema.workload import Workload


class Trace(Model):
    """A workload of a definition and, where one was judged, a solution and its evaluation."""

    definition: Text
    """Name of the definition."""
    workload: Workload
    """Sizes and inputs."""
    solution: str | None = None
    """Name of the solution; null in a workload's own line."""
    evaluation: Evaluation | None = None
    """The outcome; null in a workload's own line."""

    @property
    def is_workload(self) -> bool:
        """Whether it only states a workload."""
        return self.solution is None and self.evaluation is None

    @property
    def passed(self) -> bool:
        """Whether a solution was judged and passed."""
        return self.evaluation is not None and self.evaluation.status is Status.PASSED

    @property
    def effective_verdict(self) -> Verdict | None:
        """The judge's verdict, else the public status; None where nothing was judged."""
        return self.evaluation.effective_verdict if self.evaluation else None
