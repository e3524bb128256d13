"""The corpus: cheating kernels, each with an honest twin of the same structure, and what must become of them.

A case is a directory `cases/<name>/` of data: `case.toml`, `cheat/` and `honest/`. Where a cheat needs something of the
host that only the test knows, its source names it as @HOST_FILE@ or @ANSWER_PORT@.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from kernelmill.dataset import Dataset
from kernelmill.trace_schema import Definition, Solution, Verdict, Workload

HERE = Path(__file__).parent
CASES = HERE / "cases"
GPU_CASES = HERE / "gpu_cases"
DEFINITIONS = HERE / "definitions"
HOST_FILE = HERE / "host_file.txt"
"""A file that everybody on this host may read, and no sandboxed process."""

Side = Literal["cheat", "honest"]
Bites = Literal[
    "fast-and-passes", "slows-baseline", "forges-result", "kills-harness", "leaks", "exhausts", "passes", "not-naive"
]
Exhausts = Literal["processes", "memory", "disk", "log"]
Clock = Literal["events", "graph"]
SIDES: tuple[Side, ...] = get_args(Side)


@dataclass(frozen=True, slots=True)
class NaiveSetting:
    """How the naive harness meets a case."""

    check: Literal["allclose", "max_error"] = "allclose"
    speedup: float = 1.3
    """The cheat must be timed at least this many times faster than its twin."""
    threads: int = 1
    cpu_flags: tuple[str, ...] = ()
    """The cheat is faster only on processors with one of these."""
    exhausts: Exhausts | None = None
    clock: Clock = "events"
    """On a GPU: what one call takes between two events, or one of many calls in a graph."""


@dataclass(frozen=True, slots=True)
class Case:
    """One cheat, its twin and their fate."""

    name: str
    title: str
    ids: tuple[str, ...]
    """Kinds of exploit: T timing, C correctness, H harness, S system."""
    definition: str
    expect: tuple[Verdict, ...]
    """The verdicts that a sound judge may give the cheat, the best first. The twin must be PASSED."""
    bites: Bites
    """What the cheat gains, or does, on the naive harness."""
    language: str = "python"
    entry_point: str = "kernel.py::run"
    destination_passing_style: bool = True
    bad_paths: tuple[str, ...] = ()
    """Names for the source file reference.py that the schema must refuse, one solution each."""
    runs: int = 1
    """How often the same solution is judged; the last time counts."""
    naive: NaiveSetting = field(default_factory=NaiveSetting)
    tell: str = ""
    """What the cheat prints when it has cheated, where PASSED is sound as long as it has not."""
    root: Path = CASES
    gain: bool = True
    """False where the cheat's outputs are right and PASSED is sound, if its ratio is no better than its twin's."""

    def sources(self, side: Side, values: Mapping[str, str]) -> list[dict[str, str]]:
        """Path and content of every file, with @NAME@ replaced by `values`."""
        folder = self.root / self.name / side
        files = []
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
            content = path.read_text()
            for name, value in values.items():
                content = content.replace(f"@{name}@", value)
            files.append({"path": str(path.relative_to(folder)), "content": content})
        return files

    def raw_solution(self, side: Side, *, answer_port: int) -> dict[str, Any]:
        values = {"HOST_FILE": str(HOST_FILE), "ANSWER_PORT": str(answer_port)}
        return {
            "name": f"{self.name}-{side}",
            "definition": self.definition,
            "author": "corpus",
            "spec": {
                "language": self.language,
                "target_hardware": ["cpu"],
                "entry_point": self.entry_point,
                "destination_passing_style": self.destination_passing_style,
            },
            "sources": self.sources(side, values),
        }

    def with_bad_path(self, raw: dict[str, Any], path: str) -> dict[str, Any]:
        """`raw` with reference.py under another name."""
        renamed = [
            {**file, "path": path if file["path"] == "reference.py" else file["path"]} for file in raw["sources"]
        ]
        return {**raw, "sources": renamed}


def load_case(directory: Path) -> Case:
    raw = tomllib.loads((directory / "case.toml").read_text())
    naive = raw.pop("naive", {})
    naive["cpu_flags"] = tuple(naive.get("cpu_flags", ()))
    for name in ("ids", "bad_paths"):
        raw[name] = tuple(raw.get(name, ()))
    raw["expect"] = tuple(Verdict(name) for name in raw["expect"])
    return Case(name=directory.name, root=directory.parent, naive=NaiveSetting(**naive), **raw)


def load_cases(root: Path = CASES) -> list[Case]:
    return [load_case(path.parent) for path in sorted(root.glob("*/case.toml"))]


def raw_definition(name: str) -> dict[str, Any]:
    return dict(json.loads((DEFINITIONS / f"{name}.json").read_text()))


def raw_workloads(name: str) -> list[dict[str, Any]]:
    return [json.loads(line)["workload"] for line in (DEFINITIONS / f"{name}.jsonl").read_text().splitlines()]


def baseline(name: str) -> Solution:
    """The plain implementation that everybody's time is compared with."""
    return Solution.model_validate(
        {
            "name": f"{name}-baseline",
            "definition": name,
            "author": "baseline",
            "spec": {"language": "python", "target_hardware": ["cpu"], "entry_point": "kernel.py::run"},
            "sources": [{"path": "kernel.py", "content": (DEFINITIONS / f"{name}.py").read_text()}],
        }
    )


@dataclass(frozen=True, slots=True)
class CorpusDataset:
    """The corpus' definitions, workloads and baselines as a dataset on disk."""

    dataset: Dataset
    definitions: Mapping[str, Definition]
    workloads: Mapping[str, list[Workload]]


def write_dataset(root: Path) -> CorpusDataset:
    names = sorted(path.stem for path in DEFINITIONS.glob("*.json"))
    for name in names:
        definition = raw_definition(name)
        op_type = definition["op_type"]
        solution = baseline(name)
        _write(root / "definitions" / op_type / f"{name}.json", json.dumps(definition))
        _write(root / "workloads" / op_type / f"{name}.jsonl", (DEFINITIONS / f"{name}.jsonl").read_text())
        path = root / "solutions" / solution.author / op_type / name / f"{solution.name}.json"
        _write(path, solution.model_dump_json(exclude_unset=True))
    dataset = Dataset.open(root, cache_dir=root / "cache")
    definitions = {name: Definition.model_validate(raw_definition(name)) for name in names}
    workloads = {name: [Workload.model_validate(raw) for raw in raw_workloads(name)] for name in names}
    return CorpusDataset(dataset, definitions, workloads)


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
