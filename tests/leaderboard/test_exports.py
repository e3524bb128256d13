"""Everything public as files: what the service shows can be computed again from what it gives away."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kernelmill.dataset import Dataset
from kernelmill.dataset.checks.finding import Severity
from kernelmill.dataset.validate import validate
from kernelmill.evaluator.report.lines import entry_line
from kernelmill.evaluator.scoring import Score, score
from kernelmill.leaderboard import moderation
from kernelmill.trace_schema import Trace
from tests.leaderboard.populated import Site
from tests.leaderboard.scripted_owner import MODEL
from tests.leaderboard.test_hostile_input import refused
from tests.leaderboard.test_limits import limited
from tests.leaderboard.world import DEFINITION, HIDDEN, World, scripted

PARQUET, ARCHIVE = "/api/v1/export/traces.parquet", "/api/v1/export/dataset.tar.gz"


def table(world: World, query: str = "", who: str | None = None) -> pa.Table:
    reply = world.get(PARQUET + query, who)
    assert reply.status_code == 200, reply.text
    return pq.read_table(io.BytesIO(reply.content))


def unpacked(world: World, folder: Path, who: str | None = None) -> Dataset:
    """As anybody would: with the filter that lets no member out of the folder."""
    reply = world.get(ARCHIVE, who)
    assert reply.status_code == 200, reply.text
    with tarfile.open(fileobj=io.BytesIO(reply.content), mode="r:gz") as archive:
        archive.extractall(folder, filter="data")
    return Dataset.open(folder)


def scored(dataset: Dataset) -> Score:
    definition = dataset.definitions[DEFINITION]
    return score(
        definition,
        dataset.workloads(definition),
        dataset.traces(definition),
        device_model=MODEL,
        solutions={solution.name: solution for solution in dataset.solutions(definition)},
    )


def test_the_parquet_file_holds_every_public_trace_and_no_other(site: Site) -> None:
    found = table(site.world)
    shown = site.world.get("/api/v1/traces?limit=500").json()["items"]
    assert [json.loads(text) for text in found["trace"].to_pylist()] == shown
    assert HIDDEN not in found["workload_uuid"].to_pylist()
    assert "private_one" not in found["solution"].to_pylist()
    for who in ("alice", "root"):
        assert table(site.world, who=who).equals(found), "it is the public one for everybody"


def test_its_columns_are_what_each_trace_says(site: Site) -> None:
    for row in table(site.world).to_pylist():
        trace = Trace.model_validate_json(row["trace"])
        assert trace.evaluation is not None and trace.evaluation.subject is not None
        assert row == {
            "definition": trace.definition,
            "solution_hash": trace.evaluation.subject.solution_hash,
            "solution": trace.solution,
            "author": {"wrong_one": "bob"}.get(str(trace.solution), "alice"),
            "device_model": MODEL,
            "workload_uuid": trace.workload.uuid,
            "status": trace.evaluation.status.value,
            "verdict": trace.evaluation.effective_verdict.value,
            "trace": row["trace"],
        }


def test_it_can_be_narrowed_and_be_empty(site: Site) -> None:
    whole = table(site.world)
    assert table(site.world, f"?definition={DEFINITION}&device_model={MODEL}").equals(whole)
    for query in ("?definition=nope", "?device_model=nope"):
        empty = table(site.world, query)
        assert empty.num_rows == 0
        assert empty.schema.names == whole.schema.names


def test_the_dataset_opens_and_is_sound(site: Site, tmp_path: Path) -> None:
    dataset = unpacked(site.world, tmp_path)
    assert list(dataset.problems()) == []
    assert [found for found in validate(dataset) if found.severity is Severity.ERROR] == []
    definition = dataset.definitions[DEFINITION]
    told = site.world.get(f"/api/v1/definitions/{DEFINITION}/workloads").json()["items"]
    assert [json.loads(each.model_dump_json(exclude_unset=True)) for each in dataset.workloads(definition)] == told
    names = {solution.name for solution in dataset.solutions(definition)}
    assert names == {"public_one", "wrong_one", "rmsnorm_baseline"}
    assert {trace.solution for trace in dataset.traces(definition)} == {"public_one", "wrong_one"}


def test_the_board_can_be_computed_again_from_it(site: Site, tmp_path: Path) -> None:
    """Row for row, but for who is off the board by what nobody is told of."""
    mine = {entry.solution: entry_line(entry) for entry in scored(unpacked(site.world, tmp_path)).entries}
    board = site.world.get(f"/api/v1/leaderboard?definition={DEFINITION}&device_model={MODEL}").json()["boards"][0]
    shown = {row["solution"]: row for row in board["rows"]}
    assert mine.keys() == shown.keys()
    for name, row in mine.items():
        known = {key: value for key, value in row.items() if key in shown[name] and key != "off_board"}
        if shown[name]["off_board"] is None:
            assert known == {key: shown[name][key] for key in known}, name
        else:
            assert shown[name]["rank"] is None
    assert (mine["public_one"]["rank"], shown["public_one"]["rank"]) == (1, 1)


def test_a_service_that_takes_it_in_shows_the_same_board(site: Site, tmp_path: Path) -> None:
    from kernelmill.leaderboard.db.engine import Database
    from kernelmill.leaderboard.db.migrate import migrate
    from kernelmill.leaderboard.ingest import ingest

    dataset = unpacked(site.world, tmp_path / "dataset")
    database = Database(f"sqlite:///{tmp_path / 'other.db'}")
    migrate(database)
    other = World(database, tmp_path / "dataset", tmp_path)
    assert ingest(database, dataset) == len(list(dataset.traces()))
    other.refresh()

    def ranks(world: World) -> dict[str, Any]:
        rows = world.get(f"/api/v1/leaderboard?definition={DEFINITION}").json()["boards"][0]["rows"]
        return {row["solution"]: (row["rank"], row["author"], row["speedup"]) for row in rows if row["rank"]}

    assert ranks(other) == ranks(site.world)
    other.close()
    database.close()


def test_what_was_taken_away_is_in_neither(world: World, tmp_path: Path) -> None:
    world.submit(scripted("PASSED 2.0"), name="gone")
    world.judge()
    with world.database.write() as connection:
        moderation.hide(connection, "gone", by="test")
    assert table(world).num_rows == 0
    dataset = unpacked(world, tmp_path / "unpacked")
    assert [solution.name for solution in dataset.solutions(dataset.definitions[DEFINITION])] == ["rmsnorm_baseline"]
    assert list(dataset.traces()) == []


def test_a_trace_never_names_a_solution_that_is_not_there(world: World, tmp_path: Path) -> None:
    """One came by a dataset, under a name that no file can have: it and its traces are left out together."""
    from sqlalchemy import update

    from kernelmill.leaderboard.db import tables as t

    world.submit(scripted("PASSED 2.0"), name="odd")
    world.judge()
    with world.database.write() as connection:
        connection.execute(update(t.Solution).where(t.Solution.name == "odd").values(name="a/b"))
    dataset = unpacked(world, tmp_path / "unpacked")
    assert list(dataset.traces()) == []
    assert [found for found in validate(dataset) if found.severity is Severity.ERROR] == []


def test_an_archive_s_members_stay_in_their_folder(site: Site) -> None:
    with tarfile.open(fileobj=io.BytesIO(site.world.get(ARCHIVE).content), mode="r:gz") as archive:
        for member in archive.getmembers():
            assert member.isfile()
            assert not member.name.startswith("/")
            assert ".." not in member.name.split("/")


@pytest.mark.parametrize("path", [PARQUET, ARCHIVE])
def test_one_that_would_be_too_large_is_refused(site: Site, path: str) -> None:
    with limited(site.world, max_export_rows=3) as client:
        reply = client.get(path)
        refused(reply, 422)
        assert "one definition at a time" in reply.json()["detail"]
        assert client.get(f"{path}?definition=nope").status_code == 200


@pytest.mark.parametrize("path", [PARQUET, ARCHIVE])
def test_nothing_is_left_behind(site: Site, path: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither after it was sent nor after it failed."""
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert site.world.get(path).status_code == 200
    with limited(site.world, max_export_rows=3) as client:
        assert client.get(path).status_code == 422
    assert list(tmp_path.iterdir()) == []


def test_a_file_names_itself(site: Site) -> None:
    for path, kind in ((PARQUET, "application/vnd.apache.parquet"), (ARCHIVE, "application/gzip")):
        reply = site.world.get(path)
        assert reply.headers["content-type"] == kind
        assert path.rpartition("/")[2] in reply.headers["content-disposition"]
