"""`python -m tests.submissions.soak --runs 10`: the whole corpus before the judge again and again, as a Markdown table.

A miss is a cheat that got a verdict its case does not allow; a false alarm is an honest twin that was not PASSED.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from kernelmill.trace_schema import Verdict
from tests.submissions.corpus import SIDES, Case, load_cases
from tests.submissions.judging import Bench, examine, open_bench

Tally = Counter[tuple[str, str, str]]
"""(case, side, verdict or "fault") -> how often."""


def judge_all(bench: Bench, cases: list[Case], tally: Tally) -> None:
    bench.announce((case, side) for case in cases for side in SIDES)
    for case in cases:
        for side in SIDES:
            found, reason = examine(bench, case, side)
            tally.update((case.name, side, verdict) for verdict in found.verdicts)
            if reason:
                tally[case.name, side, "fault"] += 1
                print(f"{case.name} {side}: {reason}", file=sys.stderr, flush=True)


def row(case: Case, tally: Tally) -> str:
    def seen(side: str) -> str:
        counts = [
            f"{verdict} {tally[case.name, side, verdict]}" for verdict in Verdict if tally[case.name, side, verdict]
        ]
        return ", ".join(counts) or "none"

    faults = [str(tally[case.name, side, "fault"]) for side in SIDES]
    cells = [f"`{case.name}`", case.title, ", ".join(case.ids), seen("cheat"), seen("honest"), *faults]
    return f"| {' | '.join(cells)} |"


def table(cases: list[Case], tally: Tally) -> str:
    head = ["case", "what it does", "kinds", "cheat", "honest twin", "misses", "false alarms"]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    lines += [row(case, tally) for case in cases]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--case", action="append", help="only this case; may be given more than once")
    arguments = parser.parse_args()
    cases = [case for case in load_cases() if Verdict.INVALID_SUBMISSION not in case.expect]
    cases = [case for case in cases if not arguments.case or case.name in arguments.case]
    tally: Tally = Counter()
    for number in range(1, arguments.runs + 1):
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as root, open_bench(Path(root)) as (bench, _):
            judge_all(bench, cases, tally)
        print(f"run {number} of {arguments.runs}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    print(table(cases, tally))


if __name__ == "__main__":
    main()
