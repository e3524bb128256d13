"""Boards: made again with each trace, the same as from nothing, and frozen in editions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select, update

from kernelmill.evaluator.scoring import score
from kernelmill.leaderboard import boards, moderation, ranking, traces
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.rows import entries
from kernelmill.trace_schema import Definition, Solution, Trace, Workload
from tests.leaderboard.world import CPU, DEFINITION, UUIDS, World, scripted

VERDICTS = ("PASSED 2.0", "PASSED 1.5", "PASSED 0.5", "TIMEOUT", "INCORRECT_NUMERICAL", "CHEAT_DETECTED", "SUSPECT")


NUMBERS = iter(range(1_000_000))


def rows(world: World, **query: Any) -> dict[str, dict[str, Any]]:
    found = world.get("/api/v1/leaderboard", params={"definition": DEFINITION, "limit": 500, **query}).json()
    return {row["solution"]: row for board in found["boards"] for row in board["rows"]}


def judged(world: World, verdict: str, name: str, who: str = "alice", **over: Any) -> str:
    number: str = world.submit(scripted(verdict, name), who, name=name, **over)["id"]
    world.judge()
    world.refresh()
    return number


def from_nothing(world: World) -> list[dict[str, Any]]:
    """The board that the files of the same traces make."""
    with world.database.read() as connection:
        definition = Definition.model_validate_json(connection.execute(select(t.Definition.body)).scalar_one())
        loads = [Workload.model_validate_json(body) for body in connection.scalars(select(t.Workload.body))]
        found = [Trace.model_validate_json(body) for body in connection.scalars(select(t.Trace.body))]
        listed = [Solution.model_validate_json(body) for body in connection.scalars(select(t.Solution.body))]
    made = score(
        definition, loads, found, device_model=CPU.model, solutions={solution.name: solution for solution in listed}
    )
    return entries(made, [UUIDS[4]])


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(verdicts=st.lists(st.sampled_from(VERDICTS), min_size=1, max_size=6))
def test_law_a_board_that_grew_is_the_board_from_nothing(world: World, verdicts: list[str]) -> None:
    for verdict in verdicts:
        judged(world, verdict, f"{verdict.split()[0].lower()}_{next(NUMBERS)}")
    with world.database.read() as connection:
        edition = ranking.edition(connection, None)
        head = ranking.heads(connection, edition.id)[0]
        shown = list(ranking.Ranking().board(connection, edition.id, head)["entries"])
    assert shown == from_nothing(world)
    assert boards.rescore(world.database).different == []


def test_a_board_reads_the_same_page_by_page_and_whole(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first rows are stored apart from the others."""
    monkeypatch.setattr(boards, "TOP", 2)
    for number in range(5):
        judged(world, f"PASSED {1 + number}.0", f"kernel_{number}")
    whole, paged, query = list(rows(world)), [], {"definition": DEFINITION, "device_model": CPU.model, "limit": 2}
    assert len(whole) > 2 * boards.TOP
    while True:
        (board,) = world.get("/api/v1/leaderboard", params=query).json()["boards"]
        paged += [row["solution"] for row in board["rows"]]
        if board["next"] is None:
            break
        query["cursor"] = board["next"]
    assert paged == whole


def test_a_board_that_was_tampered_with_is_found_and_mended(world: World) -> None:
    judged(world, "PASSED 2.0", "fast")
    before = rows(world)
    with world.database.write() as connection:
        connection.execute(update(t.Board).values(top=""))
    assert boards.rescore(world.database).different == [f"{DEFINITION} on {CPU.model}"]
    assert rows(world) == before
    assert boards.rescore(world.database).different == []


def test_a_cheat_is_off_the_board_also_when_it_was_found_in_private(world: World) -> None:
    judged(world, "PASSED 3.0", "cheat")
    assert rows(world)["cheat"]["rank"] == 1
    private = world.submit(scripted("PASSED 3.0", "cheat"), name="cheat", ranked=False)["id"]
    lease = world.take()
    assert lease is not None
    assert lease.id == private
    body = world.verdicts(lease)[0].model_dump(mode="json", exclude_unset=True)
    evaluation = body["evaluation"]
    for key in ("performance", "statistics", "correctness"):
        evaluation.pop(key, None)
    evaluation |= {"status": "RUNTIME_ERROR", "verdict": "CHEAT_DETECTED", "reason": "async"}
    with world.database.write() as connection:
        traces.record(connection, lease, Trace.model_validate(body))
    world.refresh()
    assert rows(world)["cheat"]["rank"] is None
    assert "CHEAT_DETECTED" in rows(world)["cheat"]["off_board"]


def test_what_fails_on_hidden_workloads_is_off_the_board_and_does_not_say_which(world: World) -> None:
    world.submit(scripted("PASSED 2.0", "fit"), name="fit")
    lease = world.take()
    assert lease is not None
    good = world.verdicts(lease)
    world.submit(scripted("SUSPECT", "other"), name="other")
    other = world.take()
    assert other is not None
    hidden = world.verdicts(other)[-1].model_copy(update={"solution": "fit"})
    evaluation = hidden.evaluation
    assert evaluation is not None
    assert evaluation.subject is not None
    subject = evaluation.subject.model_copy(update={"solution_hash": lease.solution_hash})
    hidden = hidden.model_copy(update={"evaluation": evaluation.model_copy(update={"subject": subject})})
    with world.database.write() as connection:
        for trace in [*good[:-1], hidden]:
            traces.record(connection, lease, trace)
    world.refresh()
    assert rows(world)["fit"]["off_board"] == "SUSPECT on a hidden workload"


def test_hidden_and_banned_ones_leave_the_board_and_come_back(world: World) -> None:
    judged(world, "PASSED 2.0", "one", "alice")
    judged(world, "PASSED 3.0", "two", "bob")
    acts: list[tuple[Callable[..., None], str, str]] = [(moderation.hide, "one", "one"), (moderation.ban, "bob", "two")]
    for act, target, gone in acts:
        with world.database.write() as connection:
            act(connection, target, by="test")
        world.refresh()
        assert gone not in rows(world)
        with world.database.write() as connection:
            act(connection, target, by="test", undo=True)
        world.refresh()
        assert gone in rows(world)


def test_authors_and_languages_rank_over_the_whole_list(world: World) -> None:
    judged(world, "PASSED 2.0", "one", "alice")
    judged(world, "PASSED 4.0", "two", "bob")
    board = world.get("/api/v1/leaderboard").json()["boards"][0]
    assert [(row["name"], row["rank"], row["improved"], row["all"]) for row in board["rows"]] == [
        ("bob", 1, 1, 1),
        ("alice", 2, 1, 1),
    ]
    languages = world.get("/api/v1/leaderboard", params={"by": "language"}).json()["boards"][0]["rows"]
    assert [row["name"] for row in languages] == ["python"]
    line = world.get("/api/v1/leaderboard", params={"by": "solution"}).json()["boards"][0]["rows"][0]
    assert (line["definition"], line["leader"]["solution"]) == (DEFINITION, "two")
    assert line["best_mix"]["ratio"] > 3.9


def test_a_board_can_be_of_what_one_model_calls(world: World) -> None:
    judged(world, "PASSED 2.0", "one")
    asked = {"by": "solution", "serves": "qwen3-8b"}  # the definition here is none that a model calls
    assert world.get("/api/v1/leaderboard", params=asked).json()["boards"] == []
    assert world.get("/api/v1/leaderboard", params={"serves": "nobody"}).status_code == 404


def test_pages_of_a_board_follow_each_other(world: World) -> None:
    for place in range(5):
        world.submit(scripted("PASSED 2.0", str(place)), name=f"s{place}")
        world.judge()
    world.refresh()
    query = {"definition": DEFINITION, "device_model": CPU.model, "limit": 4}
    first = world.get("/api/v1/leaderboard", params=query).json()["boards"][0]
    second = world.get("/api/v1/leaderboard", params={**query, "cursor": first["next"]}).json()["boards"][0]
    assert second["next"] is None
    names = [row["solution"] for row in first["rows"] + second["rows"]]
    assert sorted(names) == ["rmsnorm_baseline", *(f"s{place}" for place in range(5))]


def test_a_board_is_sent_again_only_once_it_has_changed(world: World) -> None:
    judged(world, "PASSED 2.0", "one")
    path = f"/api/v1/leaderboard?definition={DEFINITION}"
    tag = world.get(path).headers["etag"]
    assert world.get(path, headers={"If-None-Match": tag}).status_code == 304
    judged(world, "PASSED 2.0", "two")
    assert world.get(path, headers={"If-None-Match": tag}).status_code == 200


def test_its_history_has_each_new_leader(world: World) -> None:
    judged(world, "PASSED 2.0", "one")
    judged(world, "PASSED 4.0", "two")
    judged(world, "PASSED 3.0", "three")
    items = world.get("/api/v1/leaderboard/history", params={"definition": DEFINITION}).json()["items"]
    leaders = [item["leader"]["solution"] for item in items if item["leader"]]
    assert leaders[0] == "one"
    assert leaders[-1] == "two"
    assert [item["solutions"] for item in items][-1] == 3


def test_the_heat_map_has_a_cell_for_every_solution_and_public_workload(world: World) -> None:
    judged(world, "PASSED 2.0", "one")
    judged(world, "TIMEOUT", "two")
    heat = world.get(f"/api/v1/definitions/{DEFINITION}/ratios", params={"device_model": CPU.model}).json()
    assert [workload["uuid"] for workload in heat["workloads"]] == UUIDS[:4]
    cells = {row["solution"]: row["cells"] for row in heat["rows"]}
    assert [cell["verdict"] for cell in cells["two"]] == ["TIMEOUT"] * 4
    assert cells["one"][0]["ratio"]["ratio"] == pytest.approx(2.0, rel=0.02)
    row, weight = 2 * 8 * 4, 8 * 4  # a row in and out, eight columns of float32
    assert [workload["bytes"] for workload in heat["workloads"]] == [n * row + weight for n in (1, 2, 3, 4)]
    best = world.get(f"/api/v1/definitions/{DEFINITION}/ratios", params={"device_model": CPU.model, "limit": 1}).json()[
        "rows"
    ]
    assert [each["solution"] for each in best] == ["one"]


def test_the_apply_table_has_what_is_surely_faster_and_fits_the_host(world: World) -> None:
    judged(world, "PASSED 2.0", "fast")
    judged(world, "PASSED 0.5", "slow")
    items = world.get("/api/v1/apply-table", params={"device_model": CPU.model}).json()["items"]
    assert {item["solution"] for item in items} == {"fast"}
    assert [item["workload"] for item in items] == UUIDS[:4]
    same = {"fingerprint": items[0]["fingerprint"], "arch": items[0]["arch"]}
    assert world.get("/api/v1/apply-table", params=same).json()["items"] == items
    assert world.get("/api/v1/apply-table", params={"fingerprint": "0" * 64}).json()["items"] == []
    assert world.get("/api/v1/apply-table", params={"arch": "sm_90"}).json()["items"] == []


def test_a_report_of_a_serving_host_is_shown_on_the_board(world: World) -> None:
    judged(world, "PASSED 2.0", "fast")
    key = rows(world)["fast"]["solution_hash"]
    report = {"solution_hash": key, "kind": "regressed", "evidence": {"host": "h", "ratio": 0.8}}
    assert world.post("/api/v1/events", report, "reader").status_code == 403
    assert world.post("/api/v1/events", report, "bob").status_code == 201
    assert rows(world)["fast"]["reports"] == {"regressed": 1}
    told = world.get(f"/api/v1/solutions/{key}").json()["reports"]
    assert (told[0]["kind"], told[0]["author"], told[0]["evidence"]["ratio"]) == ("regressed", "bob", 0.8)


def test_a_requeued_submission_is_judged_whole_again(world: World) -> None:
    number = judged(world, "PASSED 2.0", "again")
    with world.database.write() as connection:
        moderation.requeue(connection, number, by="test")
    world.refresh()
    assert "again" not in rows(world)
    world.judge()
    world.refresh()
    assert rows(world)["again"]["rank"] == 1
    with world.database.read() as connection:
        count = connection.scalar(select(func.count()).where(t.Trace.submission_id == number))
    assert count == 5
