"""Any command line agent: it works in a directory of files, round by round, and we judge what it leaves there.

`TASK.md`, `definition.json` and `FEEDBACK.md` are ours; it writes its source to `kernel.cpp`, `main.cu` or `main.py`
and, if it likes, one line to `IDEA`. A file `DONE` ends the search.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kernelmill.agents import feedback
from kernelmill.agents.attempt import Attempt, Proposal
from kernelmill.agents.journal import Journal
from kernelmill.agents.outcome import shortened
from kernelmill.agents.replies import FormatError, solution_of
from kernelmill.agents.strategies.base import History
from kernelmill.trace_schema import Definition, Language

ROUND_S = 1800.0
MAX_FILE_BYTES = 200_000
FILES = {"kernel.cpp": Language.CPP, "main.cu": Language.CUDA, "main.py": Language.TRITON}


class External:
    """`command` runs once a round, with its working directory there and the environment of this process."""

    name = "external"

    def __init__(
        self,
        command: Sequence[str],
        definition: Definition,
        kind: str,
        journal: Journal,
        *,
        steps: int,
        round_s: float = ROUND_S,
    ) -> None:
        self._command, self._definition, self._kind, self._journal = list(command), definition, kind, journal
        self._steps, self._taken, self._ended, self._round_s = steps, 0, False, round_s
        self._trouble = ""

    def propose(self, history: History) -> Sequence[Proposal]:
        self._taken += 1
        told = self._told(history)
        asked = {"round": self._taken, "command": self._command, "feedback": told}
        deadline_s = min(self._round_s, history.budget.left("wall_s"))
        left = self._journal.perform("external", asked, lambda: self._worked(told, deadline_s)).answered
        history.budget.sync(wall_s=self._journal.elapsed_s)
        self._ended = left["done"]
        try:
            return [self._proposal(left, history)]
        except FormatError as error:
            self._trouble = f"{error}\n{feedback.data(left['said'], feedback.MAX_LOG_CHARS)}"
            return []

    def observe(self, attempts: Sequence[Attempt]) -> None:
        self._trouble = ""

    def done(self, history: History) -> bool:
        return self._ended or self._taken >= self._steps

    def _told(self, history: History) -> str:
        last = history.attempts[-1] if history.attempts else None
        failed = last if last is not None and not last.outcome.passed else None
        recent = history.attempts[-feedback.MAX_LINES :]
        note = f"Your last round left no solution: {self._trouble}" if self._trouble else ""
        return feedback.feedback(
            self._kind, incumbent=history.best, failed=failed, recent=recent, rivals=history.attempts, note=note
        )

    def _proposal(self, left: dict[str, Any], history: History) -> Proposal:
        """Raises FormatError."""
        if not left["file"]:
            raise FormatError(f"none of {', '.join(FILES)} was written")
        language = FILES[left["file"]]
        if language is Language.TRITON and "triton" not in left["source"]:
            language = Language.PYTHON
        solution = solution_of(left["source"], language, self._definition, self._kind, "external")
        parents = (len(history.attempts) - 1,) if history.attempts else ()
        return Proposal(solution, " ".join(left["idea"].split())[:160], parents)

    def _worked(self, told: str, deadline_s: float) -> dict[str, Any]:
        """Run the command in a fresh copy of its directory's state; what it left."""
        folder = self._journal.folder / "workspace"
        folder.mkdir(exist_ok=True)
        (folder / "TASK.md").write_text(feedback.task(self._definition, self._kind), encoding="utf-8")
        (folder / "FEEDBACK.md").write_text(told, encoding="utf-8")
        (folder / "definition.json").write_text(self._definition.model_dump_json(exclude_unset=True), encoding="utf-8")
        for name in (*FILES, "IDEA", "DONE"):
            (folder / name).unlink(missing_ok=True)
        said = run(self._command, folder, deadline_s)
        written = [name for name in FILES if (folder / name).is_file() and not (folder / name).is_symlink()]
        return {
            "file": written[0] if written else "",
            "source": _text(folder / written[0]) if written else "",
            "idea": _text(folder / "IDEA"),
            "done": (folder / "DONE").exists(),
            "said": said,
        }


def run(command: Sequence[str], folder: Path, deadline_s: float) -> str:
    """What it said, cut; it and all that it started in its group are gone afterwards."""
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        except OSError as error:
            return f"{command[0]} cannot be run: {error}"
        try:
            process.wait(timeout=max(0.1, deadline_s))
            ending = f"it ended with code {process.returncode}"
        except subprocess.TimeoutExpired:
            ending = f"it did not end within {deadline_s:g} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(max(0, output.seek(0, os.SEEK_END) - MAX_FILE_BYTES))
        return f"{shortened(output.read().decode('utf-8', 'replace'))}\n{ending}"


def _text(path: Path) -> str:
    if not path.is_file() or path.is_symlink():
        return ""
    with path.open("rb") as file:
        return file.read(MAX_FILE_BYTES).decode("utf-8", "replace")
