"""A submission from the hand-in to its end."""

from __future__ import annotations

import json

from kernelmill.leaderboard import leases
from tests.leaderboard.world import DEFINITION, UUIDS, World, scripted, submission, told


def test_a_submission_is_accepted_judged_and_on_the_board(world: World) -> None:
    accepted = world.submit(scripted("PASSED 2.0"), name="fast")
    assert accepted["state"] == "queued"
    assert accepted["position"] == 1
    assert accepted["ranked"]
    assert accepted["author"] == "alice"
    assert any("token's owner" in note for note in accepted["notes"])
    world.judge()
    view = world.view(accepted["id"], None)
    assert (view["state"], view["outcome"], view["verdicts"]) == ("done", "passed", {"PASSED": 4})
    world.refresh()
    board = world.get(f"/api/v1/leaderboard?definition={DEFINITION}").json()["boards"][0]
    rows = {row["solution"]: row for row in board["rows"]}
    assert rows["fast"]["rank"] == 1
    assert 1.9 < rows["fast"]["speedup"]["ratio"] < 2.1
    assert rows["rmsnorm_baseline"]["speedup"]["ratio"] == 1


def test_its_events_tell_each_state_and_each_verdict_once_and_can_be_resumed(world: World) -> None:
    number = world.submit(scripted("PASSED 2.0"))["id"]
    world.judge()
    events = told(world.get(f"/api/v1/submissions/{number}/events").text)
    assert [data["state"] for kind, data, _ in events if kind == "state"] == ["queued", "building", "done"]
    verdicts = [data for kind, data, _ in events if kind == "verdict"]
    assert [each.get("workload_uuid") for each in verdicts] == [*UUIDS[:4], None]
    assert verdicts[-1] == {"hidden": True, "status": "PASSED", "error": "<= 1e-6"}
    ids = [number for _, _, number in events if number]
    rest = told(world.get(f"/api/v1/submissions/{number}/events", headers={"Last-Event-ID": ids[2]}).text)
    assert [number for _, _, number in rest if number] == ids[3:]


def test_the_same_key_has_one_effect(world: World) -> None:
    body = submission(scripted("PASSED 2.0"))
    first = world.post("/api/v1/submissions", body, headers={"Idempotency-Key": "k"})
    second = world.post("/api/v1/submissions", body, headers={"Idempotency-Key": "k"})
    other = world.post("/api/v1/submissions", submission(scripted("PASSED 3.0")), headers={"Idempotency-Key": "k"})
    assert first.json() == second.json()
    assert second.headers["idempotent-replay"] == "true"
    assert other.status_code == 422
    assert "another request" in other.json()["detail"]
    assert len(world.get("/api/v1/submissions", "root").json()["items"]) == 1


def test_the_same_source_is_judged_once_and_shared(world: World) -> None:
    source = scripted("PASSED 2.0")
    first = world.submit(source)
    second = world.submit(source, "bob")
    assert second["duplicate_of"] == first["id"]
    assert any("shares its verdicts" in note for note in second["notes"])
    world.judge()
    assert world.take() is None
    assert world.view(second["id"])["outcome"] == "passed"
    third = world.submit(source, "bob")
    assert third["state"] == "done"
    assert third["verdicts"] == {"PASSED": 4}
    kinds = [kind for kind, _, _ in told(world.get(f"/api/v1/submissions/{third['id']}/events").text)]
    assert kinds.count("verdict") == 5


def test_when_the_first_is_cancelled_the_next_takes_its_place(world: World) -> None:
    source = scripted("PASSED 2.0")
    first, second, third = (
        world.submit(source),
        world.submit(source, "bob"),
        world.submit(source, "root", author="root"),
    )
    world.client.delete(f"/api/v1/submissions/{first['id']}", headers=world.headers("alice"))
    lease = world.take()
    assert lease is not None
    assert lease.id == second["id"]
    world.judge(lease)
    assert world.view(third["id"])["state"] == "done"
    assert world.view(first["id"])["state"] == "cancelled"


def test_what_runs_is_asked_to_stop(world: World) -> None:
    number = world.submit(scripted("PASSED 2.0"))["id"]
    lease = world.take()
    assert lease is not None
    reply = world.client.delete(f"/api/v1/submissions/{number}", headers=world.headers("alice"))
    assert reply.status_code == 200
    try:
        with world.database.write() as connection:
            leases.hold(connection, lease, lease_s=60)
    except leases.Cancelled:
        return
    raise AssertionError("the lease was held on to")


def test_only_its_author_may_cancel(world: World) -> None:
    number = world.submit(scripted("PASSED 2.0"))["id"]
    assert world.client.delete(f"/api/v1/submissions/{number}", headers=world.headers("bob")).status_code == 403
    assert world.client.delete(f"/api/v1/submissions/{number}", headers=world.headers("root")).status_code == 200
    assert world.client.delete(f"/api/v1/submissions/{number}", headers=world.headers("alice")).status_code == 409


def test_a_private_run_is_its_authors_alone(world: World) -> None:
    number = world.submit(scripted("PASSED 2.0"), name="secret", ranked=False)["id"]
    world.judge()
    world.refresh()
    for who in (None, "bob"):
        assert world.get(f"/api/v1/submissions/{number}", who).status_code == 404
        assert world.get("/api/v1/solutions/secret", who).status_code == 404
        assert world.get("/api/v1/traces", who).json()["items"] == []
    assert len(world.get("/api/v1/traces", "alice").json()["items"]) == 4
    assert world.get("/api/v1/solutions/secret", "alice").json()["author"] == "alice"
    assert world.get("/api/v1/leaderboard").json()["boards"] == []


def test_hidden_workloads_are_told_by_status_alone(world: World) -> None:
    world.submit(scripted("INCORRECT_NUMERICAL"))
    world.judge()
    world.refresh()
    seen = [
        world.get(path).text
        for path in (
            "/api/v1/traces",
            f"/api/v1/definitions/{DEFINITION}/workloads",
            f"/definitions/{DEFINITION}/workloads",
            f"/api/v1/leaderboard?definition={DEFINITION}",
        )
    ]
    assert not any(UUIDS[4] in text for text in seen)
    assert world.get(f"/workloads/{UUIDS[4]}").status_code == 404
    assert UUIDS[4] in world.get("/api/v1/traces", "root").text


def test_names_stay_unique(world: World) -> None:
    world.submit(scripted("PASSED 2.0"), name="same")
    second = world.submit(scripted("PASSED 3.0"), "bob", name="same")
    assert second["solution"]["name"].startswith("same-")
    assert any("stands for another source" in note for note in second["notes"])


def test_wrong_fields_are_named(world: World) -> None:
    body = submission(scripted("PASSED"))
    body["solution"]["spec"]["language"] = "cobol"
    assert "solution.spec.language" in [
        each["field"] for each in world.post("/api/v1/submissions", body).json()["errors"]
    ]
    body = submission(scripted("PASSED"))
    body["solution"]["definition"] = "rmsnorm_h9"
    problem = world.post("/api/v1/submissions", body).json()
    assert problem["errors"][0]["field"] == "solution.definition"
    assert "did you mean rmsnorm_h8" in problem["detail"]
    problem = world.post("/api/v1/submissions", submission(scripted("PASSED"), workload_uuids=[UUIDS[4]])).json()
    assert problem["errors"][0]["field"] == "workload_uuids"
    problem = world.post("/api/v1/submissions", submission(scripted("PASSED"), unknown=1)).json()
    assert problem["errors"][0]["field"] == "unknown"


def test_a_quota_is_answered_with_when_to_come_back(world: World) -> None:
    from kernelmill.leaderboard import moderation

    with world.database.write() as connection:
        moderation.set_quota(connection, 2, "alice", None, by="test")
    world.submit(scripted("PASSED", "a"))
    world.submit(scripted("PASSED", "b"))
    world.judge()
    world.judge()
    reply = world.post("/api/v1/submissions", submission(scripted("PASSED", "c")))
    assert reply.status_code == 429
    assert 3500 < int(reply.headers["retry-after"]) <= 3601
    world.submit(scripted("PASSED", "d"), "bob")


def test_only_an_administrator_submits_in_another_name(world: World) -> None:
    body = submission(scripted("PASSED 2.0", "x"), author="flashinfer")
    assert world.post("/api/v1/submissions", body, "alice").json()["author"] == "alice"
    body = submission(scripted("PASSED 2.0", "y"), author="flashinfer")
    assert world.post("/api/v1/submissions", body, "root").json()["author"] == "flashinfer"


def test_a_banned_author_is_refused(world: World) -> None:
    from kernelmill.leaderboard import moderation

    with world.database.write() as connection:
        moderation.ban(connection, "alice", by="test")
    assert world.post("/api/v1/submissions", submission(scripted("PASSED"))).status_code == 403
    assert json.loads(world.get("/api/v1/definitions", "alice").text)["items"]
