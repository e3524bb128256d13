"""A backup taken while people write is a whole service: put back elsewhere, nothing acknowledged is missing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, text
from typer.testing import CliRunner

from kernelmill.cli import app
from kernelmill.leaderboard.api.app import create_app
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.db.migrate import check
from tests.leaderboard.postgres import Postgres
from tests.leaderboard.world import DEFINITION, World, scripted

BOARD = f"/api/v1/leaderboard?definition={DEFINITION}"


def admin(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["admin", *arguments])
    return done.exit_code, done.output


@contextmanager
def writing(world: World) -> Iterator[list[str]]:
    """Somebody who submits without a pause; the ids that were acknowledged."""
    ended, acknowledged = threading.Event(), list[str]()
    with world.database.write() as connection:
        connection.execute(t.Quota.__table__.insert().values(per_hour=1_000_000))  # type: ignore[attr-defined]

    def write() -> None:
        while not ended.is_set():
            acknowledged.append(world.submit(scripted("PASSED 1.5", str(len(acknowledged))), "bob")["id"])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield acknowledged
    finally:
        ended.set()
        thread.join()


def lived(world: World) -> dict[str, Any]:
    """A submission, its verdicts and its board; what the service says of them."""
    number = world.submit(scripted("PASSED 2.0"), name="fast")["id"]
    world.judge()
    world.refresh()
    return {path: world.get(path).json() for path in (f"/api/v1/submissions/{number}", "/api/v1/traces", BOARD)}


def check_restored(world: World, url: str, before: dict[str, Any], acknowledged: list[str]) -> None:
    restored = Database(url)
    check(restored)
    with restored.read() as connection:
        kept = set(connection.scalars(select(t.Submission.id)))
        for table in (t.Trace, t.Share, t.Board, t.Token, t.Workload):
            count = select(func.count()).select_from(table)
            with world.database.read() as original:
                assert 0 < (connection.scalar(count) or 0) == original.scalar(count)
    assert set(acknowledged) <= kept
    old, world.client = world.client, type(world.client)(create_app(world.settings, restored))
    try:
        for path, told in before.items():
            assert world.get(path).json() == told, path
        assert world.submit(scripted("PASSED 3.0"), "alice")["state"] == "queued"
        assert world.post("/api/v1/submissions", {}, "reader").status_code == 403
        number = world.take()
        assert number is not None
    finally:
        world.client.close()
        world.client = old
        restored.close()


def wait_for(acknowledged: list[str], count: int) -> list[str]:
    """What was acknowledged once there are so many more."""
    wanted, pause = len(acknowledged) + count, threading.Event()
    for _ in range(3000):
        if len(acknowledged) >= wanted:
            return list(acknowledged)
        pause.wait(0.02)
    raise AssertionError("the writer is stuck")


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_embedded_database_is_backed_up_under_writes_and_restored(world: World, tmp_path: Path) -> None:
    before = lived(world)
    file, target = tmp_path / "backup.db", tmp_path / "new" / "service.db"
    with writing(world) as acknowledged:
        until_then = wait_for(acknowledged, 5)
        assert admin("backup", str(file), "--database-url", str(world.database.url))[0] == 0
        wait_for(acknowledged, 2)
    assert file.stat().st_mode & 0o077 == 0
    url = f"sqlite:///{target}"
    assert admin("restore", str(file), "--database-url", url) == (0, "kernelmill: the database is up to date\n")
    assert target.stat().st_mode & 0o077 == 0
    assert not target.with_name("service.db.restoring").exists()
    check_restored(world, url, before, until_then)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_postgresql_is_dumped_under_writes_and_restored(world: World, postgres: Postgres) -> None:
    before = lived(world)
    name, file = str(world.database.url.database), str(postgres.folder / "backup.dump")
    with writing(world) as acknowledged:
        until_then = wait_for(acknowledged, 5)
        postgres.tool("pg_dump", "--format=custom", f"--file={file}", name)
        wait_for(acknowledged, 2)
    postgres.sql(f"create database {name}_restored")
    for _ in range(2):  # into an empty database, then over the one that is there
        postgres.tool("pg_restore", "--clean", "--if-exists", "--exit-on-error", f"--dbname={name}_restored", file)
    check_restored(world, postgres.url(f"{name}_restored"), before, until_then)


@pytest.fixture
def backed_up(tmp_path: Path) -> Path:
    assert admin("migrate", "--database-url", f"sqlite:///{tmp_path}/old.db")[0] == 0
    assert admin("backup", f"{tmp_path}/backup.db", "--database-url", f"sqlite:///{tmp_path}/old.db")[0] == 0
    return tmp_path / "backup.db"


@pytest.mark.parametrize("beside", ["", "-wal", "-shm"])
def test_nothing_is_restored_over_a_database_or_what_is_left_of_one(backed_up: Path, beside: str) -> None:
    left = backed_up.with_name(f"new.db{beside}")
    left.write_text("precious")
    code, said = admin("restore", str(backed_up), "--database-url", f"sqlite:///{backed_up.parent}/new.db")
    assert code == 2
    assert "move it away" in said
    assert left.read_text() == "precious"


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-8192])


def other(file: Path) -> None:
    file.unlink()
    with Database(f"sqlite:///{file}").write() as connection:
        connection.execute(text("create table other (a int)"))


@pytest.mark.parametrize("spoil", [Path.unlink, cut, other, lambda file: file.write_text("no database" * 999)])
def test_what_is_no_whole_backup_is_refused(backed_up: Path, spoil: Callable[[Path], object]) -> None:
    spoil(backed_up)
    target = backed_up.with_name("new.db")
    code, said = admin("restore", str(backed_up), "--database-url", f"sqlite:///{target}")
    assert code == 2, said
    assert str(backed_up) in said
    assert not target.exists()


def test_a_backup_is_never_written_over_a_file(backed_up: Path) -> None:
    code, said = admin("backup", str(backed_up), "--database-url", f"sqlite:///{backed_up.parent}/old.db")
    assert (code, "exists already" in said) == (2, True)


def test_only_the_embedded_database_has_a_file(backed_up: Path) -> None:
    code, said = admin("restore", str(backed_up), "--database-url", "postgresql://nobody@/nothing")
    assert (code, "pg_restore" in said) == (2, True)
