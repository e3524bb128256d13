"""The check "mutants" of `kernelmill validate`: definitions whose comparator lets a wrong answer pass."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kernelmill.dataset.checks.context import Context
from kernelmill.dataset.checks.finding import Finding, Place
from kernelmill.evaluator.dtypes import UnsupportedDType
from kernelmill.evaluator.mutants.hunt import Hunter, Outcome, Trial, hunting, survivors_of
from kernelmill.evaluator.sandbox import SandboxUnavailable
from kernelmill.trace_schema import Definition, Workload
from kernelmill.trace_schema.errors import DatasetError

SECONDS = 120.0
"""For one definition: no workload is begun after so long. Small ones come first."""


@dataclass(slots=True)
class Progress:
    """What was tried of one definition."""

    workloads: int = 0
    survivors: int = 0
    ended: Counter[tuple[str, Outcome]] = field(default_factory=Counter)

    def note(self, trials: list[Trial]) -> None:
        self.workloads += 1
        self.survivors += sum(trial.outcome is Outcome.SURVIVED for trial in trials)
        self.ended.update((trial.mutant.name, trial.outcome) for trial in trials)

    def untested(self) -> list[str]:
        """Mutants that no workload left room for."""
        names = {name for name, _ in self.ended}
        return sorted(name for name in names if self.ended[name, Outcome.IDLE] == self.workloads)


def findings(context: Context) -> Iterator[Finding]:
    """An error for every mutant that passes, a warning for what could not be tried."""
    for place, definition in context.definitions:
        workloads = [(where, one) for where, name, one in context.workloads if name == definition.name]
        workloads.sort(key=lambda pair: math.prod(pair[1].axes.values()))
        try:
            with hunting(definition, context.dataset) as hunter:
                yield from _hunt(hunter, place, definition, workloads)
        except SandboxUnavailable as error:
            yield place.error("$", f"no mutant was tried: {error}", "mend that, or leave --mutants out")
            return
        except (DatasetError, UnsupportedDType) as error:
            yield place.error("$.reference", str(error), "mend it")


def _hunt(
    hunter: Hunter, place: Place, definition: Definition, workloads: list[tuple[Place, Workload]]
) -> Iterator[Finding]:
    progress, start = Progress(), time.monotonic()
    for number, (where, workload) in enumerate(workloads):
        spent = time.monotonic() - start
        if spent > SECONDS:
            left = len(workloads) - number
            yield place.info("$", f"the mutants were tried on {number} workloads in {spent:.0f} s; {left} are left")
            break
        try:
            trials = list(hunter.trials(hunter.scene(workload)))
        except DatasetError as error:
            yield where.warning("$.workload", f"no mutant could be tried: {error}", strict=True)
            continue
        progress.note(trials)
        for survivor in survivors_of(trials):
            what = f"the mutant {survivor.mutant!r} passes {definition.name} on workload {workload.uuid}"
            yield where.error("$.workload", f"{what} {dict(workload.axes)}: {survivor.why}", survivor.advice)
    untested = progress.untested()
    if untested and progress.workloads:
        yield place.warning(
            "$", f"no workload leaves room for: {', '.join(untested)}", "add one with more rows or keys"
        )
    tried = f"{len(hunter.mutants)} mutants, {progress.workloads} workloads, {time.monotonic() - start:.0f} s"
    _say(f"{definition.name}: {tried}, {progress.survivors} pass")


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
