"""What is measured: syncs, editions, proposals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import func, select

from kernelmill.dataset import Dataset
from kernelmill.leaderboard import catalog
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.migrate import migrate
from kernelmill.leaderboard.errors import Conflict
from kernelmill.leaderboard.ingest import ingest
from kernelmill.trace_schema import Trace
from tests.builders import raw_definition, raw_workload, solution, workload
from tests.leaderboard.test_boards import judged, rows
from tests.leaderboard.world import DEFINITION, UUIDS, World, scripted


def sync(world: World) -> catalog.Synced:
    world.dataset.refresh()
    with world.database.write() as connection:
        return catalog.sync(connection, world.dataset, by="test")


def add_workload(world: World, uuid: str, **over: Any) -> None:
    made = workload(uuid=uuid, **{"axes": {"batch_size": 9}, **over})
    world.dataset.append(Trace(definition=DEFINITION, workload=made, solution=None, evaluation=None))


def test_the_migration_makes_exactly_the_tables_that_the_code_uses(world: World) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    migrate(world.database)
    with world.database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, t.Base.metadata) == []


def test_a_second_sync_changes_nothing(world: World) -> None:
    done = sync(world)
    assert (done.definitions, done.workloads, done.solutions, done.edition) == (0, 0, 0, None)


def test_workloads_stand_in_the_order_of_their_file_and_moving_one_changes_no_score(world: World) -> None:
    listed = list(world.dataset.workloads(world.dataset.definitions[DEFINITION]))
    with world.database.write() as connection:
        assert catalog.take_workloads(connection, DEFINITION, listed[::-1]) == 0
        own = t.Workload
        query = select(own.uuid).where(own.definition == DEFINITION, own.is_current).order_by(own.position)
        assert list(connection.scalars(query)) == [each.uuid for each in listed[::-1]]
        assert catalog.open_edition(connection) is None


def test_a_new_workload_opens_an_edition_and_the_old_board_stays_as_it_was(world: World) -> None:
    judged(world, "PASSED 2.0", "one")
    before = world.get(f"/api/v1/leaderboard?definition={DEFINITION}").json()
    add_workload(world, "91111111-1111-4111-8111-111111111111", weight=5.0)
    assert sync(world).edition is not None
    world.refresh()
    after = world.get(f"/api/v1/leaderboard?definition={DEFINITION}").json()
    assert after["edition"] != before["edition"]
    assert after["boards"][0]["rows"][0]["coverage"] == 0.8
    old = world.get(f"/api/v1/leaderboard?definition={DEFINITION}&edition={before['edition']}").json()
    assert old["boards"] == before["boards"]
    assert not old["is_open"]
    assert [item["is_open"] for item in world.get("/api/v1/editions").json()["items"]] == [True, False]


def test_a_hidden_workload_opens_no_edition(world: World) -> None:
    add_workload(world, "91111111-1111-4111-8111-111111111111", split="hidden")
    done = sync(world)
    assert (done.workloads, done.edition) == (1, None)


def test_what_left_the_dataset_is_no_longer_measured(world: World) -> None:
    judged(world, "PASSED 2.0", "one")
    (world.dataset.root / "definitions" / "rmsnorm" / f"{DEFINITION}.json").unlink()
    assert sync(world).edition is not None
    assert world.get(f"/api/v1/definitions/{DEFINITION}").status_code == 404
    world.refresh()
    assert rows(world) == {}


def test_a_name_never_comes_to_stand_for_another_source(world: World) -> None:
    world.submit(scripted("PASSED 2.0", "mine"), name="taken")
    world.dataset.add_solution(solution(name="taken", source=scripted("PASSED 3.0", "theirs")))
    with pytest.raises(Conflict, match="rename it in the dataset"):
        sync(world)


def test_a_datasets_traces_are_taken_in_once(world: World) -> None:
    judged(world, "PASSED 2.0", "one")
    with world.database.read() as connection:
        body = json.loads(connection.execute(select(t.Trace.body).limit(1)).scalar_one())
    world.dataset.add_solution(solution(name="filed", source=scripted("PASSED 2.0", "filed")))
    filed = world.dataset.solution("filed")
    body["solution"] = "filed"
    body["evaluation"]["subject"]["solution_hash"] = filed.hash()
    world.dataset.append(Trace.model_validate(body))
    body["evaluation"]["subject"]["solution_hash"] = "0" * 64
    world.dataset.append(Trace.model_validate(body))
    sync(world)
    opened = Dataset.open(world.dataset.root)
    assert [ingest(world.database, opened), ingest(world.database, opened)] == [1, 0]
    world.refresh()
    assert rows(world)["filed"]["coverage"] == 0.25


def test_an_accepted_proposal_is_measured_and_survives_a_sync(world: World) -> None:
    new = raw_workload(uuid="91111111-1111-4111-8111-111111111111", axes={"batch_size": 9})
    wrong = raw_workload(uuid="92111111-1111-4111-8111-111111111111", axes={"rows": 9})
    refused = world.post("/api/v1/proposals", {"definition": DEFINITION, "workloads": [wrong]})
    assert refused.json()["errors"][0]["field"] == "workloads.0.axes"
    made = world.post("/api/v1/proposals", {"definition": DEFINITION, "workloads": [new], "why": "seen in serving"})
    path = f"/api/v1/proposals/{made.json()['id']}/decision"
    assert world.post(path, {"accept": True}, "alice").status_code == 403
    assert world.post(path, {"accept": True}, "root").json()["state"] == "accepted"
    assert world.post(path, {"accept": True}, "root").status_code == 409
    sync(world)
    uuids = [item["uuid"] for item in world.get(f"/api/v1/definitions/{DEFINITION}/workloads").json()["items"]]
    assert uuids == [*UUIDS[:4], new["uuid"]]


def test_a_proposed_definition_is_measured_once_accepted(world: World) -> None:
    proposal = {"definition": raw_definition(name="rmsnorm_new"), "workloads": [raw_workload()]}
    number = world.post("/api/v1/proposals", proposal).json()["id"]
    assert world.get("/api/v1/definitions/rmsnorm_new").status_code == 404
    world.post(f"/api/v1/proposals/{number}/decision", {"accept": True}, "root")
    sync(world)
    assert world.get("/api/v1/definitions/rmsnorm_new").json()["name"] == "rmsnorm_new"


def test_what_administrators_do_is_in_the_audit_log(world: World) -> None:
    with world.database.read() as connection:
        actions = connection.scalars(select(t.Audit.action)).all()
        secrets = connection.scalar(select(func.count()).where(t.Audit.data.contains("km_")))
    assert "catalog.sync" in actions
    assert "token.create" in actions
    assert secrets == 0
