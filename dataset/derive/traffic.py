"""The recorded traffic that workloads are made of: which files, on which deployment, at which load points."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernelmill.dataset.derive import readers
from kernelmill.dataset.derive.deployment import H200, Deployment, find_model
from kernelmill.dataset.derive.replay import Replay, replay
from kernelmill.dataset.derive.request import Request
from kernelmill.trace_schema.errors import DatasetError


@dataclass(frozen=True, slots=True)
class Load:
    """One load point: arrivals a second at one replica, and how many requests are replayed."""

    name: str
    per_second: float
    requests: int
    until_s: float = math.inf
    """When the replay ends, for traces whose sessions last for days."""
    fine: bool = False
    """Whether it is also replayed with one token a page, which takes sixteen times the blocks."""


@dataclass(frozen=True, slots=True)
class Source:
    """A trace, the replica that serves it, and its two load points."""

    name: str
    file: str
    read: Callable[[Path], list[Request]]
    model: str
    tp: int
    loads: tuple[Load, ...]
    origin: str
    """Repository and commit, and the path in it."""

    @property
    def deployment(self) -> Deployment:
        return Deployment(find_model(self.model), H200, self.tp)


SOURCES = (
    Source(
        "azure_conv_2023",
        "AzureLLMInferenceTrace_conv.csv",
        readers.azure,
        "llama-3.1-8b",
        1,
        (Load("calm", 3.0, 1500, fine=True), Load("busy", 32.0, 3000)),
        "Azure/AzurePublicDataset @ b469a113cedca53ddc3bdea71a143dc4b7d8700c data/AzureLLMInferenceTrace_conv.csv",
    ),
    Source(
        "azure_code_2023",
        "AzureLLMInferenceTrace_code.csv",
        readers.azure,
        "llama-3.1-8b",
        1,
        (Load("calm", 3.0, 1500, fine=True), Load("busy", 15.0, 3000)),
        "Azure/AzurePublicDataset @ b469a113cedca53ddc3bdea71a143dc4b7d8700c data/AzureLLMInferenceTrace_code.csv",
    ),
    Source(
        "mooncake_conversation",
        "conversation_trace.jsonl",
        readers.mooncake,
        "llama-3.1-70b",
        4,
        (Load("calm", 0.5, 600), Load("busy", 2.0, 1200)),
        "kvcache-ai/Mooncake @ 3b5a594133958449a1feaf1c9e0fc1b553e34a28 FAST25-release/traces/conversation_trace.jsonl",
    ),
    Source(
        "agentic_coding",
        "agentic_lengths.jsonl",
        readers.agentic,
        "qwen3-30b-a3b",
        2,
        (Load("calm", 0.05, 1500, until_s=1500.0), Load("busy", 0.25, 9000, until_s=900.0)),
        "callanjfox/kv-cache-tester @ 94f6046dfd9c0c8bc0cdb24a5aa6579bac8669bf traces/trace_NNNN.json",
    ),
    Source(
        "servegen_deepseek_r1",
        "reason_deepseek-r1.agg_hist.json",
        readers.servegen,
        "deepseek-v3",
        8,
        (Load("calm", 0.5, 600, fine=True), Load("busy", 4.0, 2000)),
        "alibaba/ServeGen @ f891d1189eb32b3868dfc443800c4150548c282a data/reason",
    ),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One replay: a trace at a load point, with so many tokens a page."""

    source: Source
    load: Load
    page_size: int
    replay: Replay

    @property
    def provenance(self) -> dict[str, Any]:
        return {
            "kind": "request_trace",
            "trace": self.source.name,
            "model": self.source.model,
            "tp": self.source.tp,
            "load": self.load.name,
            "requests_per_s": self.load.per_second,
            "page_size": self.page_size,
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """What is replayed: sources, and the file of each."""

    sources: tuple[tuple[Source, Path], ...]

    def runs(self, page_size: int) -> Iterator[Run]:
        """Every load point of every trace; with one token a page only the small ones."""
        for source, file in self.sources:
            requests = source.read(file)
            for load in source.loads:
                if page_size > 1 or load.fine:
                    stretched = readers.at_rate(requests, load.per_second, load.requests)
                    yield Run(source, load, page_size, replay(stretched, source.deployment, page_size, load.until_s))


def plan(where: Path, *, model: str | None = None, tp: int = 1, load: str | None = None) -> Plan:
    """All sources below a folder, or the one whose file `where` is. `model` serves them in place of their own.

    DatasetError names what is missing and where it comes from.
    """
    if where.is_file():
        chosen = [(source, where) for source in SOURCES if source.file == where.name]
        if not chosen:
            known = ", ".join(source.file for source in SOURCES)
            raise DatasetError(f"{where}: no reader is known for a file of this name; there are readers for {known}")
    else:
        chosen = _find(where)
    return Plan(tuple((_changed(source, model, tp, load), file) for source, file in chosen))


def _find(folder: Path) -> list[tuple[Source, Path]]:
    found, missing = [], []
    for source in SOURCES:
        files = sorted(folder.rglob(source.file))
        found += [(source, files[0])] if files else []
        missing += [] if files else [f"  {source.file}: github.com/{source.origin}"]
    if missing:
        message = "\n".join([f"{folder} lacks recorded traffic; put there", *missing])
        raise DatasetError(f"{message}\n(licences, and how each file is made: DATA_LICENSES.md of the dataset)")
    return found


def _changed(source: Source, model: str | None, tp: int, load: str | None) -> Source:
    if model is not None:
        find_model(model)
        source = replace(source, model=model, tp=tp)
    if load is not None:
        loads = tuple(one for one in source.loads if one.name == load)
        if not loads:
            raise DatasetError(f"no load point is called {load!r}; there are {', '.join(x.name for x in source.loads)}")
        source = replace(source, loads=loads)
    return source
