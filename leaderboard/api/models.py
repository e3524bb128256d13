"""Shapes of requests and replies, for validation and for the OpenAPI document."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from kernelmill.leaderboard.api import examples
from kernelmill.trace_schema import Definition, Solution, Workload
from kernelmill.trace_schema.base import Json

T = TypeVar("T")
Name = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")]
Uuid = Annotated[str, StringConstraints(min_length=1, max_length=255)]
MOST_VALUES = 20_000
State = Literal["queued", "building", "judging", "done", "cancelled", "failed"]


class Bounded(BaseModel):
    """A request. One of very many values would take minutes to find fault with, each for itself.

    Nor is text taken that UTF-8 can't carry, which a JSON escape can spell: no database could be asked for it.
    """

    @model_validator(mode="before")
    @classmethod
    def _check_size(cls, value: Any) -> Any:
        found, count = [value], 0
        while found:
            each = found.pop()
            if isinstance(each, str):
                _check_text(each)
                continue
            inner = [*each, *each.values()] if isinstance(each, dict) else each if isinstance(each, list) else ()
            count += len(inner)
            if count > MOST_VALUES:
                raise ValueError(f"more than {MOST_VALUES} JSON keys and values; send less at once")
            found += inner
        return value


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("text with a lone surrogate can't be written as UTF-8") from None


class Strict(Bounded):
    """A request in which a field that nobody knows is a mistake of its writer."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Page(BaseModel, Generic[T]):
    """A page; `next` is the cursor of the following one, or null."""

    items: list[T]
    next: str | None


class Listed(BaseModel, Generic[T]):
    """A whole list."""

    items: list[T]


class DefinitionItem(BaseModel):
    name: str
    op_type: str
    hash: str
    description: str | None
    workloads: int
    solutions: int


class EditionItem(BaseModel):
    name: str
    hash: str
    is_open: bool
    created_at: datetime


class SolutionItem(BaseModel):
    hash: str
    name: str
    definition: str
    author: str
    language: str
    is_baseline: bool
    derived_from: str | None
    likeness: float | None
    """Share of it that is in `derived_from`, where the service found that out."""
    created_at: datetime


class SolutionDetail(SolutionItem):
    reports: list[ReportItem]
    """What serving hosts told of it."""
    solution: dict[str, Any]
    """The Solution itself."""


class SubmissionRequest(Strict):
    """A solution to be judged."""

    model_config = examples.shown({"solution": examples.SOLUTION, "ranked": False})
    solution: Solution
    device_model: Name | None = None
    """Where; any device that it is for, if left out."""
    workload_uuids: Annotated[list[Uuid], Field(min_length=1, max_length=1000)] | None = None
    """Only these, which makes it a private run; all, if left out."""
    ranked: bool | None = None
    """Whether it counts for the board; if left out, unless `workload_uuids` are given."""


class Links(BaseModel):
    self: str
    events: str
    solution: str
    traces: str


class SolutionRef(BaseModel):
    hash: str
    name: str
    author: str
    derived_from: str | None = None


class SubmissionView(BaseModel):
    """A submission as it stands. `position` counts who is before it, itself included, while it waits."""

    id: str
    state: State
    position: int | None
    eta_s: float | None
    ranked: bool
    definition: str
    device_model: str | None
    author: str
    solution: SolutionRef
    duplicate_of: str | None
    outcome: Literal["passed", "not_passed"] | None
    reason: str | None
    expected: int
    verdicts: dict[str, int]
    """How many there are of each so far."""
    attempts: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    links: Links


class SubmissionAccepted(SubmissionView):
    notes: list[str]
    """What was changed or shared, and why."""


class ProposalRequest(Strict):
    """Workloads for a definition that is there, or a whole definition; one of the two."""

    model_config = examples.shown({"definition": "rmsnorm_h4096", "workloads": [examples.WORKLOAD], "why": "prefill"})
    definition: Name | Definition
    workloads: Annotated[list[Workload], Field(min_length=1, max_length=200)] | None = None
    why: Annotated[str, StringConstraints(max_length=4000)] = ""


class ProposalView(BaseModel):
    id: int
    kind: Literal["workloads", "definition"]
    definition: str
    author: str
    state: Literal["open", "accepted", "rejected"]
    why: str
    created_at: datetime


class Decision(Strict):
    """What an administrator makes of a proposal."""

    model_config = examples.shown({"accept": True})
    accept: bool


class ReportRequest(Strict):
    """What a serving host tells of a solution that it ran."""

    model_config = examples.shown(examples.REPORT)
    solution_hash: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    kind: Literal["withdrawn", "regressed"]
    evidence: Annotated[dict[str, Json], Field(max_length=100)]
    """Free JSON: host, device, library versions, what was seen."""


class ReportItem(BaseModel):
    kind: Literal["withdrawn", "regressed"]
    author: str
    evidence: dict[str, Any]
    created_at: datetime


class AuthorItem(BaseModel):
    name: str
    kind: Literal["person", "agent"]
    model: str | None
    harness: str | None
    created_at: datetime


class DeviceItem(BaseModel):
    model: str
    kind: str
    arch: str | None
    libs: dict[str, str]
    is_judging: bool
    """Whether a dispatcher offered it in the last minute."""
    queued: int


class Ratio(BaseModel):
    """A speedup; non-finite bounds are strings."""

    ratio: float | str | None
    ci95: list[float | str | None]
    interval: Literal["sessions", "within-session", "exact"]


class Choice(BaseModel):
    """What to run on one workload; `solution` is null where the baseline stays."""

    workload: str
    axes: dict[str, int]
    weight: float | None
    solution: str | None
    solution_hash: str | None
    ratio: Ratio | None
    why: str


class BestMix(BaseModel):
    """What all solutions together gain."""

    speedup: Ratio
    choices: list[Choice]


class BoardView(BaseModel):
    """One device model. Of a single definition's board also its summary, best mix and how it was judged."""

    device_model: str
    definitions: int
    updated_at: datetime
    baseline: str | None = None
    best_mix: BestMix | None = None
    workloads: int | None = None
    solutions: int | None = None
    rows: list[dict[str, Any]]
    """By solution: entries of a definition, or a line a definition; else authors or languages."""
    next: str | None


class Leaderboard(BaseModel):
    edition: str
    is_open: bool
    by: Literal["solution", "author", "language"]
    definition: str | None
    boards: list[BoardView]


class HistoryItem(BaseModel):
    device_model: str
    at: datetime
    best_mix: Ratio | None = None
    leader: dict[str, Any] | None = None
    solutions: int | None = None


class ProgressItem(BaseModel):
    """A kernel that became its author's best on a definition."""

    at: datetime
    """When it was first judged."""
    definition: str
    solution: str
    solution_hash: str
    speedup: Ratio
    """The kernel's own, as it is judged today."""
    deployed: Ratio
    """The author's over the whole list of definitions, from then on."""


class Heat(BaseModel):
    """`cells` of a row are in the order of `workloads`; null where it was not judged.

    `bytes` and `flops` of a workload are the least that a call moves and computes (0 flops: nobody wrote them down).
    Over a cell's `solution_ms` they are what was achieved, over its `roofline_ms` what the device's measured peaks
    allow at most.
    """

    workloads: list[dict[str, Any]]
    rows: list[dict[str, Any]]


class ApplyRow(BaseModel):
    definition: str
    op_type: str
    device_model: str
    arch: str | None
    workload: str
    axes: dict[str, int]
    weight: float | None
    solution: str
    solution_hash: str
    baseline: str | None
    speedup: Ratio
    libs: dict[str, str]
    fingerprint: str
    """Of `libs`."""
    source: str


class ApplyTable(BaseModel):
    edition: str
    items: list[ApplyRow]


SolutionDetail.model_rebuild()
