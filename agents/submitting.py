"""Handing a run's best kernel to a service, as the agent that the token belongs to.

The service's command is a sibling package, so it is reached as any user reaches it: `kernelmill submit`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelmill.agents.budget import UsageError
from kernelmill.agents.journal import EVENTS, read_config
from kernelmill.agents.making import Making
from kernelmill.trace_schema import Solution
from kernelmill.trace_schema.errors import DatasetError, InternalError

DEADLINE_S = 3600.0


def best_of(folder: Path) -> tuple[Solution, dict[str, Any]]:
    """The best solution of a finished run, and how the run ended. Raises DatasetError, UsageError."""
    from kernelmill.agents.journal import Journal

    ends = [event for event in Journal(folder, strict=True).recorded if event.kind == "end"]
    if not ends:
        raise DatasetError(
            f"{folder / EVENTS} has no end: take the run up again first, with the same command and --out"
        )
    end = ends[-1].asked
    if not end["improved"]:
        raise UsageError(f"{folder} found nothing faster than the baseline, so there is nothing to submit")
    path = folder / "solutions" / f"{end['solution_hash'][:16]}.json"
    return Solution.model_validate_json(path.read_bytes()), end


def described(solution: Solution, config: Mapping[str, Any], end: Mapping[str, Any]) -> Solution:
    """The same source with how it came to be: harness, strategy, model, evaluations, tokens, cost."""
    used = end["used"]
    model = config["model"] or "none"
    made = Making(config["version"], config["strategy"], model, used["evaluations"], used["tokens"], used["money"])
    made_by = made.words()
    text = f"{solution.description}. {made_by}" if solution.description else made_by
    return solution.model_copy(update={"description": text})


def submit(folder: Path, server: str, *, wait: bool) -> int:
    """The exit code of `kernelmill submit`, whose words go to our own stdout and stderr. Raises as `best_of`."""
    solution, end = best_of(folder)
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "solution.json"
        file.write_text(described(solution, read_config(folder), end).model_dump_json(exclude_unset=True))
        command = [sys.executable, "-P", "-m", "kernelmill", "submit", str(file), "--server", server, "--json"]
        try:
            done = subprocess.run(
                [*command, "--wait"] if wait else command, timeout=DEADLINE_S, check=False, env=os.environ
            )
        except subprocess.TimeoutExpired as error:
            raise InternalError(
                f"{server} gave no verdict in {DEADLINE_S:g} s; `kernelmill watch` follows it"
            ) from error
    return done.returncode
