"""A service in which there is one of everything, and what its things are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.builders import raw_definition, raw_workload
from tests.leaderboard.scripted_owner import MODEL
from tests.leaderboard.world import DEFINITION, HIDDEN, UUIDS, World, scripted

PROPOSED = "eeeeeeee-1111-4111-8111-111111111111"


@dataclass(frozen=True, slots=True)
class Things:
    """Alice's public submission and her private one, both judged, and a proposal."""

    public: str
    private: str
    public_hash: str
    private_hash: str
    proposal: int


@dataclass(frozen=True, slots=True)
class Site:
    """A populated service."""

    world: World
    things: Things


def populate(world: World) -> Things:
    public = world.submit(scripted("PASSED 2.0"), name="public_one")
    world.judge()
    private = world.submit(scripted("PASSED 3.0", "secret"), name="private_one", ranked=False)
    world.judge()
    world.submit(scripted("INCORRECT_NUMERICAL", "wrong"), "bob", name="wrong_one")
    world.judge()
    world.refresh()
    evidence = {"solution_hash": public["solution"]["hash"], "kind": "regressed", "evidence": {"host": "a"}}
    assert world.post("/api/v1/events", evidence, "bob").status_code == 201
    return Things(
        public["id"],
        private["id"],
        public["solution"]["hash"],
        private["solution"]["hash"],
        propose(world, raw_workload(uuid=PROPOSED)),
    )


def propose(world: World, *workloads: dict[str, Any]) -> int:
    """Of alice, for the definition that is there; the proposal's number."""
    reply = world.post("/api/v1/proposals", {"definition": DEFINITION, "workloads": list(workloads), "why": "used"})
    assert reply.status_code == 201, reply.text
    number: int = reply.json()["id"]
    return number


def definition_proposal(name: str, **workload: Any) -> dict[str, Any]:
    """A request body that proposes a whole definition and a workload of it."""
    return {"definition": raw_definition(name=name), "workloads": [raw_workload(uuid=PROPOSED, **workload)]}


def known(things: Things) -> dict[str, list[Any]]:
    """Values that mean something here, by a parameter's name."""
    numbers = [things.public, things.private]
    return {
        "name": [DEFINITION],
        "definition": [DEFINITION],
        "device_model": [MODEL],
        "id": numbers,
        "task_id": numbers,
        "submission": numbers,
        "hash": [things.public_hash, "private_one", "rmsnorm_baseline"],
        "solution": [things.public_hash, "public_one"],
        "author": ["alice", "baseline"],
        "uuid": [UUIDS[0], HIDDEN],
        "workload": [UUIDS[0], HIDDEN],
        "arch": ["x86_64"],
        "op_type": ["rmsnorm"],
    }
