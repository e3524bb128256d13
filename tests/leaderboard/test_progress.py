"""An author's way up: it ends where the board has them, and each step is a kernel of theirs."""

from __future__ import annotations

from kernelmill.leaderboard import moderation
from tests.leaderboard.scripted_owner import MODEL
from tests.leaderboard.world import World, scripted


def judged(world: World, verdict: str, name: str, who: str = "alice") -> None:
    world.submit(scripted(verdict, name), who, name=name)
    world.judge()
    world.refresh()


def steps(world: World, author: str = "alice", model: str = MODEL) -> list[dict[str, object]]:
    reply = world.get(f"/api/v1/authors/{author}/progress", params={"device_model": model})
    assert reply.status_code == 200, reply.text
    found: list[dict[str, object]] = reply.json()["items"]
    return found


def test_a_step_is_a_kernel_that_became_the_author_s_best(world: World) -> None:
    for verdict, name in [("PASSED 1.5", "one"), ("PASSED 1.2", "worse"), ("TIMEOUT", "none"), ("PASSED 3.0", "best")]:
        judged(world, verdict, name)
    judged(world, "PASSED 5.0", "another", "bob")
    found = steps(world)
    assert [step["solution"] for step in found] == ["one", "best"]
    rows = world.get("/api/v1/leaderboard", params={"by": "author"}).json()["boards"][0]["rows"]
    standing = next(row for row in rows if row["name"] == "alice")
    assert found[-1]["deployed"] == standing["speedup"]


def test_what_was_taken_away_has_no_step(world: World) -> None:
    judged(world, "PASSED 1.5", "one")
    judged(world, "PASSED 3.0", "gone")
    with world.database.write() as connection:
        moderation.hide(connection, "gone", by="test")
    world.refresh()
    assert [step["solution"] for step in steps(world)] == ["one"]


def test_who_has_done_nothing_has_no_steps(world: World) -> None:
    judged(world, "PASSED 1.5", "one")
    assert steps(world, "bob") == []
    assert steps(world, "alice", "nothing") == []
    assert world.get("/api/v1/authors/nobody/progress", params={"device_model": MODEL}).status_code == 404
