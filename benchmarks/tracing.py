"""What tracing costs: a call, and a served burst.

`python -m benchmarks.tracing [--rounds 20] [--requests 40]` after `make engines`. Two servers of one tiny model run
side by side, one as it is and one that traces norms, gates and gemms; bursts of requests go to them by turns. It prints
the median ratio of the times of neighbouring bursts, plain over traced, with its 95 % interval, and microseconds a call
of `apply` with tracing off and on.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from kernelmill.apply import apply, enable_tracing
from kernelmill.evaluator.statistics import Ratio, paired_ratio
from tests.apply.engines.kernels import dataset_folder
from tests.apply.engines.serving import VLLM, serving, tiny_model
from tests.apply.engines.test_vllm import burst

DEFINITION = "rmsnorm_h4096"
CALLS = 5000
WARM_UP = 3
PAUSE_S = 1.5
"""vLLM's processes look for work without a pause for a second after the last."""


def cost(folder: Path, rounds: int) -> tuple[float, float]:
    """Microseconds a call over the bare one, tracing off and on; the least of all rounds, which take turns."""
    args = torch.ones(8, 4096, dtype=torch.bfloat16), torch.ones(4096, dtype=torch.bfloat16)

    def own(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x

    def once(call: Callable[[], Any]) -> float:
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        return (time.perf_counter() - start) / CALLS * 1e6

    bare, off, on = ([] for _ in range(3))
    for _ in range(rounds):
        bare.append(once(lambda: own(*args)))
        off.append(once(lambda: apply(DEFINITION, args=args, fallback=own)))
        with enable_tracing(folder / "calls", only=[DEFINITION]):
            on.append(once(lambda: apply(DEFINITION, args=args, fallback=own)))
    return min(off) - min(bare), min(on) - min(bare)


def served(folder: Path, rounds: int, requests: int) -> Ratio:
    """Time of a burst, plain over traced."""
    model = tiny_model(VLLM, "qwen3", folder)
    traced = {
        "KERNELMILL_ENABLE_TRACING": "1",
        "KERNELMILL_TRACING_OUT": str(folder / "out"),
        "KERNELMILL_DATASET": str(dataset_folder(folder / "given")),
    }
    ratios = []
    with ExitStack() as stack:
        plain = stack.enter_context(serving(VLLM, model, folder / "plain", "--enforce-eager"))
        looked_at = stack.enter_context(serving(VLLM, model, folder / "traced", "--enforce-eager", **traced))
        for at in range(rounds + WARM_UP):
            taken = {}
            for address in (plain, looked_at) if at % 2 else (looked_at, plain):
                time.sleep(PAUSE_S)
                start = time.perf_counter()
                burst(address, requests)
                taken[address] = time.perf_counter() - start
            if at >= WARM_UP:
                ratios.append(math.log(taken[plain] / taken[looked_at]))
    return paired_ratio([ratios])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--requests", type=int, default=40)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        off, on = cost(Path(name), asked.rounds)
        print(f"a call: {off:.2f} us off, {on:.2f} us on")
        found = served(Path(name), asked.rounds, asked.requests)
    print(f"a burst of {asked.requests}: {found.point:.3f} ({found.lo:.3f} to {found.hi:.3f}) as fast traced")


if __name__ == "__main__":
    main()
