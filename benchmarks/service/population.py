"""What a service holds after a good while, made up: definitions, workloads, solutions, and traces as the judge writes.

Everything follows from numbers, so that each process can make its part. A trace is the text of one that the judge's own
code made, with names, hashes, sessions and times replaced.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from typing import Any

from kernelmill.trace_schema import Definition, Solution, Trace, Workload
from tests.builders import definition, raw_solution, solution, workload
from tests.leaderboard.scripted_owner import trace_of

OPS = ("rmsnorm", "gemm", "gqa_paged", "gqa_ragged", "mla_paged", "moe", "sampling", "rope", "activation", "quantize")
LANGUAGES = ("python", "python", "triton", "tilelang")
WORKLOADS = 22
"""Of a definition; the last one is hidden."""
AUTHORS = 40
START = datetime(2026, 1, 1, tzinfo=UTC)
FAILS = "INCORRECT_NUMERICAL"
MARK = {
    "solution": "MARK-SOLUTION",
    "hash": "MARK-HASH",
    "session": "MARK-SESSION",
}


@dataclass(frozen=True, slots=True)
class Population:
    """How many definitions, and solutions of each beside the baseline."""

    definitions: int
    solutions: int

    @classmethod
    def of(cls, traces: int, definitions: int, solutions: int) -> Population:
        """At most so many solutions, and fewer where there are few traces."""
        return cls(definitions, max(1, min(solutions, round(traces / (definitions * WORKLOADS)))))

    @property
    def traces(self) -> int:
        return self.definitions * self.solutions * WORKLOADS


def make_definition(number: int) -> Definition:
    op = OPS[number % len(OPS)]
    size = 64 * (1 + number)
    axes = {"batch_size": {"type": "var"}, "hidden_size": {"type": "const", "value": size}}
    return definition(name=f"{op}_h{size}", op_type=op, axes=axes, description=f"{op} over rows of {size}")


def make_workloads(number: int) -> list[Workload]:
    return [
        workload(
            uuid=str(uuid.UUID(int=(number << 64) + rank + 1, version=4)),
            axes={"batch_size": 1 << (rank % 16) | rank},
            weight=float(1 + rank % 5),
            **({"split": "hidden"} if rank == WORKLOADS - 1 else {}),
        )
        for rank in range(WORKLOADS)
    ]


def author_of(rank: int) -> str:
    """Every fourth author is an agent."""
    number = rank % AUTHORS
    return f"agent-{number}" if number % 4 == 0 else f"author-{number}"


@cache
def body_of(seed: int) -> str:
    """A kernel of some 30 lines; another seed gives another structure, not only other names."""
    random = Random(seed)
    lines = ["import torch", "", "", "def run(hidden_states, weight, output):", "    x = hidden_states.float()"]
    names = ["x", "weight", "hidden_states"]
    calls = ("torch.exp({a})", "{a} * {b}", "torch.where({a} > {b}, {a}, {b})", "{a}[:, None] + {b}", "({a} - {b}) / 2")
    for number in range(26):
        call = random.choice(calls).format(a=random.choice(names), b=random.choice(names))
        if random.random() < 0.2:
            lines.append(f"    if {random.choice(names)}.shape[0] {random.choice('<>')} {random.randrange(512)}:")
            lines.append(f"        x = {call}")
            continue
        names.append(f"v{number}")
        lines.append(f"    v{number} = ({call}).sum({random.choice(('dim=-1', 'dim=0, keepdim=True', '0'))})")
    return "\n".join([*lines, "    output.copy_(x)", ""])


def make_solution(of: Definition, rank: int) -> Solution:
    """Of one definition no two are alike; the same rank is the same text for each definition."""
    return solution(
        name=f"{of.name}_{rank:04}",
        definition=of.name,
        author=author_of(rank),
        spec={"language": LANGUAGES[rank % len(LANGUAGES)], "target_hardware": ["cpu", "cuda"]},
        source=f"# {of.name}, attempt {rank}\n{body_of(rank)}",
    )


def make_baseline(of: Definition) -> Solution:
    return solution(name=f"{of.name}_baseline", definition=of.name, author="baseline")


def submission_of(of: str, seed: int) -> dict[str, Any]:
    """The body of a request with a source that nobody has handed in yet."""
    return {"solution": raw_solution(name=f"new_{seed}", definition=of, author="whoever", source=body_of(seed))}


class Judge:
    """Makes the traces of one definition's solutions."""

    def __init__(self, of: Definition, workloads: list[Workload], baseline: Solution) -> None:
        self._workloads = workloads
        self._templates = [self._template(of, baseline, each) for each in ("PASSED 1.0", FAILS)]

    def traces(self, solution: Solution, rank: int) -> Iterator[tuple[Workload, str, str]]:
        """(workload, verdict, text) of one sitting, in order."""
        random = Random(f"{solution.definition} {rank}")
        names = {
            "solution": solution.name,
            "hash": solution.hash(),
            "session": session_of(solution),
        }
        speed = random.lognormvariate(0.2, 0.4)
        for each, passed, failed in zip(self._workloads, *self._templates, strict=True):
            fails = random.random() < 0.02
            text = (failed if fails else passed) % (names | _times(speed * random.lognormvariate(0, 0.1), rank))
            yield each, FAILS if fails else "PASSED", text

    def _template(self, of: Definition, baseline: Solution, verdict: str) -> list[str]:
        """One a workload, to be filled in by `%`."""
        marked = solution(name=MARK["solution"], definition=of.name, source=f"# verdict: {verdict}\n")
        made = trace_of(of, marked, self._workloads[0], baseline, MARK["session"])
        return [_with_gaps(made, workload) for workload in self._workloads]


def session_of(solution: Solution) -> str:
    return hashlib.blake2b(solution.name.encode(), digest_size=16).hexdigest()


def moment_of(rank: int) -> datetime:
    """When the solutions of a rank were judged."""
    return START + timedelta(hours=6 * rank)


def _with_gaps(made: Trace, workload: Workload) -> str:
    raw = json.loads(made.model_copy(update={"workload": workload}).model_dump_json(exclude_unset=True))
    evaluation = raw["evaluation"]
    evaluation["subject"] |= {"workload_hash": workload.hash(), "solution_hash": MARK["hash"]}
    evaluation["timestamp"] = "%(timestamp)s"
    gaps: Mapping[str, list[str]] = {
        "statistics": ["median_ms", "p10_ms", "p90_ms", "ratio"],
        "performance": ["latency_ms", "speedup_factor"],
        "correctness": ["max_relative_error", "max_absolute_error"],
    }
    for part, numbers in gaps.items():
        if evaluation.get(part):
            evaluation[part] |= {number: f"%({number})s" for number in numbers}
    if evaluation.get("statistics"):
        evaluation["statistics"]["ratio_ci95"] = ["%(lo)s", "%(hi)s"]
    text = json.dumps(raw, separators=(",", ":"))
    for name, mark in MARK.items():
        text = text.replace(mark, f"%({name})s")
    for number in ("lo", "hi", *(each for numbers in gaps.values() for each in numbers)):
        text = text.replace(f'"%({number})s"', f"%({number})s")
    return text


def _times(ratio: float, rank: int) -> dict[str, str | float]:
    mine = 1.0 / ratio
    return {
        "timestamp": moment_of(rank).isoformat(timespec="milliseconds"),
        "median_ms": round(mine, 6),
        "p10_ms": round(0.98 * mine, 6),
        "p90_ms": round(1.03 * mine, 6),
        "latency_ms": round(mine, 6),
        "speedup_factor": 4 * ratio,
        "ratio": ratio,
        "lo": 0.985 * ratio,
        "hi": 1.015 * ratio,
        "max_relative_error": 1e-4 * ratio,
        "max_absolute_error": 1e-5 * ratio,
    }
