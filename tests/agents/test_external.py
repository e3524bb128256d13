"""An agent that is a shell script: it works in a directory, reads feedback, and ends the search itself."""

from __future__ import annotations

from pathlib import Path

from kernelmill.agents import loop
from kernelmill.agents.journal import Journal
from kernelmill.agents.strategies.external import External
from tests import builders
from tests.agents import toy

SCRIPT = """
grep -q 'rmsnorm_h8' TASK.md definition.json || exit 9
read -r x < memory 2>/dev/null || x=0
case $(cat FEEDBACK.md) in *"x=5 y=3"*) touch DONE;; esac
x=$((x + 1)); echo $x > memory
if [ $x = 2 ]; then echo "I forgot"; exit 3; fi
printf '# x=%d y=3\\ndef run(hidden_states, weight, output):\\n    pass\\n' $((x + 1)) > main.py
echo "step to x=$((x + 1))" > IDEA
"""


def search(folder: Path, script: str, *, steps: int = 20, strict: bool = False, round_s: float = 20.0) -> loop.Result:
    journal = Journal(folder, strict=strict, secrets=())
    strategy = External(["sh", "-c", script], builders.definition(), "cpu", journal, steps=steps, round_s=round_s)
    return loop.run(strategy, toy.ToyJudge(), journal, toy.history())


def test_a_shell_script_climbs_to_the_optimum_and_says_when_it_is_done(tmp_path: Path) -> None:
    result = search(tmp_path, SCRIPT)
    assert result.best is not None and result.best.proposal.idea == "step to x=6"
    assert [one.proposal.idea for one in result.attempts] == [f"step to x={x}" for x in (2, 4, 5, 6)]
    assert not result.exhausted


def test_it_is_told_why_nothing_was_found(tmp_path: Path) -> None:
    search(tmp_path, SCRIPT, steps=3)
    told = [event.asked["feedback"] for event in Journal(tmp_path, strict=True).recorded if event.kind == "external"]
    assert "none of kernel.cpp, main.cu, main.py was written" in told[2]
    assert "I forgot\nit ended with code 3" in told[2]


def test_a_replay_runs_no_command(tmp_path: Path) -> None:
    whole = search(tmp_path, SCRIPT)
    (tmp_path / "workspace" / "memory").write_text("0")
    assert search(tmp_path, SCRIPT, strict=True) == whole
    assert (tmp_path / "workspace" / "memory").read_text() == "0"


def test_an_agent_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    result = search(tmp_path, "sleep 300 & echo $! > child; sleep 300", steps=1, round_s=0.5)
    assert not result.attempts
    child = Path("/proc") / (tmp_path / "workspace" / "child").read_text().strip() / "stat"
    assert not child.exists() or child.read_text().split()[2] in "ZX"


def test_a_command_that_is_not_there_is_said(tmp_path: Path) -> None:
    journal = toy.journal(tmp_path)
    strategy = External(["/no/such/agent"], builders.definition(), "cpu", journal, steps=1)
    loop.run(strategy, toy.ToyJudge(), journal, toy.history())
    assert "cannot be run" in journal.recorded[0].answered["said"]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    result = search(tmp_path, "ln -s /etc/passwd main.py", steps=1)
    assert not result.attempts
