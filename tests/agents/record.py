"""Records the runs below `runs/` anew: `python -m tests.agents.record`. Needed when a template or an event changes."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from kernelmill.agents import session
from kernelmill.agents.budget import Limits
from tests.agents.shipped import small

RUNS = Path(__file__).parent / "runs"
NAMES = {"gemm_bf16_n4096_k4096": False, "rmsnorm_h4096": True}
"""Whether on the largest workloads, or on the least. The reference is the baseline."""
WORKLOADS = 3


def main() -> None:
    for name, largest in NAMES.items():
        with tempfile.TemporaryDirectory() as scratch:
            dataset = small(Path(scratch), name, workloads=WORKLOADS, largest=largest)
            shutil.rmtree(RUNS / name, ignore_errors=True)
            plan = session.Plan(name, limits=Limits(evaluations=8, wall_s=3600))
            result = session.start(plan, dataset, RUNS / name, lambda text: print(text, file=sys.stderr), save=False)
            assert result.improved, name


if __name__ == "__main__":
    main()
