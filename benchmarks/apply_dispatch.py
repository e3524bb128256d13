"""What `apply` costs a call: hit, miss and kwargs, over the bare call, here and in the public `flashinfer-bench` 0.1.2.

`python -m benchmarks.apply_dispatch [--rounds 15]`. Both choose a kernel that does nothing for the same definition and
call, in the same process, their rounds taking turns; the least of each is shown, in microseconds. The public package is
installed without its dependencies, so what it imports and does not need here (flashinfer) is stubbed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import types
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch

from kernelmill.apply import apply
from kernelmill.apply.features import features_of
from kernelmill.apply.grid import Box
from kernelmill.apply.guard.events import Events
from kernelmill.apply.runtime import Candidate, Looks, Runtime
from kernelmill.apply.state import force
from kernelmill.dataset import Dataset
from kernelmill.dataset.paths import default_path

DEFINITION = "rmsnorm_h4096"
COVERED, UNCOVERED = 8, 100
CALLS = 5000
Call = Callable[[], Any]


class Cost(NamedTuple):
    """Microseconds a call over the bare one."""

    hit: float
    miss: float
    kwargs: float


def kernel(hidden_states: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return hidden_states


def ours(args: tuple[Any, ...], kwargs: dict[str, Any], uncovered: tuple[Any, ...]) -> dict[str, Call]:
    definition = Dataset.open(default_path()).definition(DEFINITION)
    runtime = Runtime("cpu", Looks(share=0.0, first=1, counts=False), Events(None))
    candidate = Candidate("null", "0" * 64, kernel, destination_passing=False)
    runtime.serve(definition, features_of(definition), [Box((1,), (64,), 0)], [candidate])
    force(runtime)
    return {
        "hit": lambda: apply(DEFINITION, args=args, fallback=kernel),
        "miss": lambda: apply(DEFINITION, args=uncovered, fallback=kernel),
        "kwargs": lambda: apply(DEFINITION, kwargs=kwargs, fallback=kernel),
    }


def public(args: tuple[Any, ...], kwargs: dict[str, Any], uncovered: tuple[Any, ...], folder: Path) -> dict[str, Call]:
    """Its table holds one passing trace of a solution for exactly the covered size."""
    _stub("flashinfer", "flashinfer.testing")
    package = import_module("flashinfer_bench")
    data = import_module("flashinfer_bench.data")
    _write(data, folder)
    config = import_module("flashinfer_bench.apply").ApplyConfig(max_atol=1.0, max_rtol=1.0)
    package.enable_apply(str(folder), config)
    their = package.apply
    return {
        "hit": lambda: their(DEFINITION, args=args, fallback=kernel),
        "miss": lambda: their(DEFINITION, args=uncovered, fallback=kernel),
        "kwargs": lambda: their(DEFINITION, kwargs=kwargs, fallback=kernel),
    }


def _stub(*names: str) -> None:
    for name in names:
        if name not in sys.modules:
            module = types.ModuleType(name)
            module.__dict__["__getattr__"] = _nothing
            module.__path__ = []
            sys.modules[name] = module


def _nothing(attribute: str) -> Any:
    if attribute.startswith("__"):
        raise AttributeError(attribute)
    return types.SimpleNamespace()


def _write(data: Any, folder: Path) -> None:
    """A dataset in the public layout: the shipped definition, a null solution, one trace."""
    from tests.builders import raw_evaluation, raw_solution

    definition = Dataset.open(default_path()).definition(DEFINITION)
    source = "def run(hidden_states, weight):\n    return hidden_states\n"
    spec = {"destination_passing_style": False}
    solution = raw_solution(name="null", definition=DEFINITION, author="bench", source=source, spec=spec)
    inputs = {name: {"type": "random"} for name in definition.inputs}
    workload = {"uuid": "w1", "axes": {"batch_size": COVERED}, "inputs": inputs}
    evaluation = {k: v for k, v in raw_evaluation().items() if k != "statistics"}
    trace = {"definition": DEFINITION, "workload": workload, "solution": "null", "evaluation": evaluation}
    texts = {
        f"definitions/rmsnorm/{DEFINITION}.json": definition.model_dump_json(exclude_unset=True),
        f"solutions/bench/rmsnorm/{DEFINITION}/null.json": data.Solution.model_validate(solution).model_dump_json(),
        f"traces/bench/rmsnorm/{DEFINITION}.jsonl": data.Trace.model_validate(trace).model_dump_json() + "\n",
    }
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def measure(calls: dict[str, Call], rounds: int) -> dict[str, float]:
    """Microseconds a call, the least of all rounds; the kinds take turns, so that a busy moment hurts all alike."""
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            least[name] = min(least[name], (time.perf_counter() - start) / CALLS * 1e6)
    return least


def compare(rounds: int) -> tuple[Cost, Cost]:
    """Ours and theirs."""
    weight = torch.rand(4096, dtype=torch.bfloat16)
    args, uncovered = ((torch.randn(rows, 4096, dtype=torch.bfloat16), weight) for rows in (COVERED, UNCOVERED))
    kwargs = dict(zip(("hidden_states", "weight"), args, strict=True))
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        calls: dict[str, Call] = {"bare": lambda: kernel(*args)}
        calls |= {f"ours {name}": call for name, call in ours(args, kwargs, uncovered).items()}
        calls |= {f"public {name}": call for name, call in public(args, kwargs, uncovered, Path(folder)).items()}
        assert all(calls[f"{whose} hit"]() is args[0] for whose in ("ours", "public"))
        found = measure(calls, rounds)
    mine, theirs = (
        Cost(*(found[f"{whose} {kind}"] - found["bare"] for kind in Cost._fields)) for whose in ("ours", "public")
    )
    return mine, theirs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    mine, theirs = compare(parser.parse_args().rounds)
    print(f"{'us over the bare call':<24}{'here':>8}{'public':>8}{'times':>8}")
    for kind in Cost._fields:
        own, other = getattr(mine, kind), getattr(theirs, kind)
        print(f"{kind:<24}{own:>8.2f}{other:>8.2f}{other / own:>8.1f}")


if __name__ == "__main__":
    main()
