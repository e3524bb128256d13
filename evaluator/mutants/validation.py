"""The check "mutants" of `kernelmill validate`: definitions whose comparator lets a wrong answer pass."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator

from kernelmill.dataset.checks.context import Context
from kernelmill.dataset.checks.finding import Finding, Place
from kernelmill.evaluator.dtypes import UnsupportedDType
from kernelmill.evaluator.mutants.hunt import Hunter, Outcome, Trial, hunting, survivors_of
from kernelmill.trace_schema import Definition, Workload
from kernelmill.trace_schema.errors import DatasetError, InternalError

SECONDS = 120.0
"""For one definition: no workload is begun after so long. Small ones come first."""


def findings(context: Context) -> Iterator[Finding]:
    """An error for every mutant that passes, a warning for what could not be tried."""
    for place, definition in context.definitions:
        workloads = [(where, one) for where, name, one in context.workloads if name == definition.name]
        workloads.sort(key=lambda pair: math.prod(pair[1].axes.values()))
        try:
            with hunting(definition, context.dataset) as hunter:
                yield from _hunt(hunter, place, definition, workloads)
        except InternalError as error:
            yield place.error("$", f"no mutant was tried: {error}", "mend that, or leave --mutants out")
            return
        except DatasetError as error:
            yield place.error("$", str(error), "mend it")


def _hunt(
    hunter: Hunter, place: Place, definition: Definition, workloads: list[tuple[Place, Workload]]
) -> Iterator[Finding]:
    trials: list[Trial] = []
    begun, start = 0, time.monotonic()
    for where, workload in workloads:
        if (spent := time.monotonic() - start) > SECONDS:
            left = len(workloads) - begun
            yield place.info("$", f"the mutants were tried on {begun} workloads in {spent:.0f} s; {left} are left")
            # What is left might have caught these.
            trials = [trial for trial in trials if not (trial.mutant.statistical and trial.outcome is Outcome.SURVIVED)]
            break
        begun += 1
        try:
            trials += hunter.trials(hunter.scene(workload))
        except (DatasetError, UnsupportedDType) as error:
            yield where.warning("$.workload", f"no mutant could be tried: {error}", strict=True)
    places = {workload.uuid: where for where, workload in workloads}
    passed = survivors_of(trials)
    for mutant, workload, why, advice in passed:
        what = f"the mutant {mutant!r} passes {definition.name} on workload {workload.uuid} {dict(workload.axes)}"
        yield places[workload.uuid].error("$.workload", f"{what}: {why}", advice)
    if idle := untested(trials):
        yield place.warning("$", f"no workload leaves room for: {', '.join(idle)}", "add one with more rows or keys")
    tried = f"{len(hunter.mutants)} mutants, {begun} workloads, {time.monotonic() - start:.0f} s"
    _say(f"{definition.name}: {tried}, {len(passed)} pass")


def untested(trials: list[Trial]) -> list[str]:
    """Mutants that no workload left room for."""
    tested = {trial.mutant.name for trial in trials if trial.outcome is not Outcome.IDLE}
    return sorted({trial.mutant.name for trial in trials} - tested)


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
