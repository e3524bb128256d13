"""How well our scheduler foretells measured vLLM runs: `python -m benchmarks.simulator_validation --traces DIR`.

DIR holds runs of vLLM 0.19 as github.com/casys-kaist/LLMServingSim has them (bench/examples/*/vllm, MIT): meta.json,
requests.jsonl and timeseries.csv a run. Each is replayed with its arrivals, lengths and limits. Step times are the
roofline of data sheets at the shares that the derivation uses; nothing is fitted to the runs.

Running requests are compared second by second. Steps are not recorded in the runs: between a request's first and last
token there is one step a token, so the median of that rate over the requests that decode at a moment is the step rate.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kernelmill.dataset.derive.deployment import Deployment, Machine, Model, find_model
from kernelmill.dataset.derive.replay import Replay, replay
from kernelmill.dataset.derive.request import Request
from kernelmill.dataset.derive.scheduler import Limits

MACHINES = {
    "RTX4090": Machine("NVIDIA GeForce RTX 4090", 25.25e9, 165e12, 1.008e12),
    "RTXPRO6000": Machine("NVIDIA RTX PRO 6000 Blackwell", 96e9, 500e12, 1.792e12),
}
MODELS = {"Llama-3.1-8B": "llama-3.1-8b", "Qwen3-30B-A3B": "qwen3-30b-a3b", "Qwen3-32B": "qwen3-32b"}


@dataclass(frozen=True)
class Series:
    """What both sides are compared by."""

    running: Any
    """Requests in the batch, at each whole second."""
    waiting: Any
    steps: float
    tokens: float
    """Prompts and answers once: what is computed again after a preemption is not recorded in the runs."""
    seconds: float
    first_token_s: float
    """Median time to the first token."""

    @property
    def tokens_a_step(self) -> float:
        return self.tokens / self.steps


@dataclass(frozen=True)
class Measured:
    """One run: its folder's name, how it was served, and its requests by arrival."""

    name: str
    deployment: Deployment
    replicas: int
    requests: list[Request]
    series: Series


def read(folder: Path) -> Measured:
    """A run's folder, named MACHINE/MODEL."""
    meta = json.loads((folder / "meta.json").read_text())
    rows = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    rows.sort(key=lambda row: row["queued_ts"])
    start = rows[0]["queued_ts"]
    requests = [Request(row["queued_ts"] - start, row["input_toks"], row["output_toks"]) for row in rows]
    kwargs = meta["engine_kwargs"]
    replicas = kwargs["data_parallel_size"]
    model = find_model(next(ours for theirs, ours in MODELS.items() if folder.name.startswith(theirs)))
    limits = Limits(kwargs["max_num_batched_tokens"], kwargs["max_num_seqs"])
    pool = meta.get("kv_cache", {}).get("num_kv_tokens")
    machine = MACHINES[folder.parent.name]
    served = Deployment(_spread(model, replicas), machine, kwargs["tensor_parallel_size"], limits, pool=pool)
    with (folder / "timeseries.csv").open(newline="") as file:
        seconds = list(csv.DictReader(file))
    return Measured(f"{folder.parent.name} {folder.name}", served, replicas, requests, _measured(rows, seconds))


def _spread(model: Model, replicas: int) -> Model:
    """Experts are split over data-parallel replicas, all else is whole on each."""
    share = model.experts / replicas
    return replace(model, parameters=model.parameters - model.experts + share, experts=share)


def _measured(rows: Sequence[dict[str, Any]], seconds: Sequence[dict[str, str]]) -> Series:
    start = min(row["queued_ts"] for row in rows)
    end = max(row["last_token_ts"] for row in rows) - start
    first = np.array([row["first_token_ts"] - start for row in rows])
    last = np.array([row["last_token_ts"] - start for row in rows])
    rate = np.array([row["output_toks"] - 1 for row in rows]) / (last - first)
    moments = np.arange(0.0, end, 0.25)
    rates = [np.median(rate[mine]) for at in moments if (mine := (first <= at) & (at < last)).any()]
    return Series(
        np.array([int(row["running"]) for row in seconds]),
        np.array([int(row["waiting"]) for row in seconds]),
        float(np.sum(rates)) * 0.25,
        float(sum(row["input_toks"] + row["output_toks"] - 1 for row in rows)),
        float(end),
        float(np.median([row["first_token_ts"] - row["queued_ts"] for row in rows])),
    )


def simulated(run: Measured) -> Series:
    """The same requests, dealt round robin to the replicas."""
    parts = [run.requests[one :: run.replicas] for one in range(run.replicas)]
    found = [replay(part, run.deployment) for part in parts]
    length = len(run.series.running)
    running = np.sum([_at_seconds(one, length) for one in found], axis=0)
    moments = np.arange(1, length + 1)
    arrived = np.sum(np.array([one.arrival_s for one in run.requests])[None, :] <= moments[:, None], axis=1)
    ended = np.sum(
        [np.sum(np.array([last for *_, last in one.finished])[None, :] <= moments[:, None], axis=1) for one in found],
        axis=0,
    )
    firsts = [
        first - part[number].arrival_s
        for part, one in zip(parts, found, strict=True)
        for number, first, _ in one.finished
    ]
    return Series(
        running,
        arrived - ended - running,
        float(np.mean([len(one.steps) for one in found])),
        run.series.tokens / run.replicas,
        max(one.steps[-1].start_s for one in found),
        float(np.median(firsts)),
    )


def _at_seconds(found: Replay, length: int) -> Any:
    """Requests in the last step that began by each second; none once all are served."""
    starts = np.array([step.start_s for step in found.steps])
    sizes = np.array([len(step.new) for step in found.steps])
    at = np.searchsorted(starts, np.arange(1, length + 1), side="right") - 1
    done = np.arange(1, length + 1) > starts[-1] + 1
    return np.where(done | (at < 0), 0, sizes[at])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulator_validation", description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="folder with measured runs in any sub-folder")
    folders = sorted(file.parent for file in parser.parse_args().traces.rglob("timeseries.csv"))
    print(
        "| run | running, measured | simulated | mean error of a second | tokens a step, measured | simulated | error |"
    )
    print("| --- | --: | --: | --: | --: | --: | --: |")
    rest = []
    for folder in folders:
        run = read(folder)
        theirs, ours = run.series, simulated(run)
        tokens = theirs.tokens_a_step / run.replicas
        wrong = float(np.abs(theirs.running - ours.running).mean() / theirs.running.mean())
        print(
            f"| {run.name} | {theirs.running.mean():.1f} | {ours.running.mean():.1f} | {wrong:.1%} "
            f"| {tokens:.1f} | {ours.tokens_a_step:.1f} | {ours.tokens_a_step / tokens - 1:+.1%} |"
        )
        waiting = float(np.abs(theirs.waiting - ours.waiting).mean())
        rest.append(
            f"{run.name}: all served after {theirs.seconds:.0f} s measured, {ours.seconds:.0f} s simulated; "
            f"median first token {theirs.first_token_s:.2f} s and {ours.first_token_s:.2f} s; "
            f"waiting off by {waiting:.1f} on average"
        )
    print("\n".join(["", *rest]))


if __name__ == "__main__":
    main()
