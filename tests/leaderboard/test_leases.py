"""Who works on what, until when: fences, fairness, retries."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import update

from kernelmill.evaluator.executors.base import Seen
from kernelmill.leaderboard import leases, traces
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.types import now
from kernelmill.leaderboard.leases import Lease, LeaseLost
from tests.leaderboard.world import CPU, UUIDS, World, scripted


def expire(world: World, lease: Lease) -> None:
    """As if its holder had been silent for too long."""
    with world.database.write() as connection:
        past = now() - timedelta(seconds=1)
        connection.execute(update(t.Submission).where(t.Submission.id == lease.id).values(lease_until=past))


def take(world: World) -> Lease:
    lease = world.take()
    assert lease is not None
    return lease


def test_a_submission_is_leased_once(world: World) -> None:
    world.submit(scripted("PASSED"))
    first = take(world)
    assert world.take() is None
    assert (first.fence, first.attempt, first.done) == (1, 1, frozenset())


def test_a_holder_that_was_replaced_can_write_nothing(world: World) -> None:
    number = world.submit(scripted("PASSED 2.0"))["id"]
    old = take(world)
    trace = world.verdicts(old)[0]
    expire(world, old)
    new = take(world)
    assert (new.id, new.fence, new.attempt) == (number, 2, 2)
    for write in (
        lambda c: traces.record(c, old, trace),
        lambda c: leases.finish(c, old, "failed", reason="late"),
        lambda c: leases.hold(c, old, lease_s=60),
        lambda c: leases.retry(c, old, "late", attempts=3),
    ):
        with pytest.raises(LeaseLost), world.database.write() as connection:
            write(connection)
    assert world.view(number)["state"] == "building"
    assert world.view(number)["verdicts"] == {}


def test_the_next_holder_judges_only_what_is_left(world: World) -> None:
    number = world.submit(scripted("PASSED 2.0"))["id"]
    old = take(world)
    with world.database.write() as connection:
        for trace in world.verdicts(old)[:3]:
            assert traces.record(connection, old, trace)
    expire(world, old)
    new = take(world)
    assert new.done == frozenset(UUIDS[:3])
    world.judge(new)
    assert world.view(number)["verdicts"] == {"PASSED": 4}


def test_a_verdict_is_recorded_once(world: World) -> None:
    world.submit(scripted("PASSED 2.0"))
    lease = take(world)
    trace, again = world.verdicts(lease)[0], world.verdicts(lease)[0]
    with world.database.write() as connection:
        assert traces.record(connection, lease, trace)
        assert not traces.record(connection, lease, again)


def test_what_fails_by_our_fault_is_tried_again_later_and_not_for_ever(world: World) -> None:
    number = world.submit(scripted("PASSED"))["id"]
    for attempt in (1, 2):
        lease = take(world)
        assert lease.attempt == attempt
        with world.database.write() as connection:
            leases.retry(connection, lease, "the GPU fell off the bus", attempts=3)
        assert world.take() is None, "it waits before the next attempt"
        with world.database.write() as connection:
            connection.execute(update(t.Submission).values(not_before=None))
    last = take(world)
    with world.database.write() as connection:
        leases.retry(connection, last, "the GPU fell off the bus", attempts=3)
    view = world.view(number)
    assert view["state"] == "failed"
    assert view["reason"] == "given up after 3 attempts: the GPU fell off the bus"


def test_whose_holders_are_lost_each_time_is_given_up(world: World) -> None:
    number = world.submit(scripted("PASSED"))["id"]
    for _ in range(3):
        expire(world, take(world))
    assert world.take() is None
    assert world.view(number)["state"] == "failed"
    assert "lost each time" in world.view(number)["reason"]


def test_authors_take_turns_however_much_one_submits(world: World) -> None:
    for place in range(3):
        world.submit(scripted("PASSED", f"a{place}"), "alice")
    world.submit(scripted("PASSED", "b"), "bob")
    authors = [world.view(take(world).id)["author"] for _ in range(4)]
    assert authors == ["alice", "bob", "alice", "alice"]


def test_a_short_private_run_goes_before_ranked_ones_but_nobody_starves(world: World) -> None:
    ranked = world.submit(scripted("PASSED", "r"), "alice")["id"]
    private = world.submit(scripted("PASSED", "p"), "bob", ranked=False)["id"]
    assert take(world).id == private
    other = world.submit(scripted("PASSED", "q"), "root", author="root", ranked=False)["id"]
    with world.database.write() as connection:
        long_ago = now() - timedelta(hours=1)
        connection.execute(update(t.Submission).where(t.Submission.id == ranked).values(created_at=long_ago))
    assert [take(world).id, take(world).id] == [ranked, other]


def test_a_device_takes_what_is_for_it(world: World) -> None:
    elsewhere = world.submit(scripted("PASSED", "x"), device_model="NVIDIA H200")["id"]
    here = world.submit(scripted("PASSED", "y"), device_model=CPU.model)["id"]
    assert take(world).id == here
    assert world.take() is None
    with world.database.write() as connection:
        gpu = Seen("cuda", "NVIDIA H200")
        lease = leases.take(connection, gpu, "gpu", lease_s=60, attempts=3)
    assert lease is None, "its target hardware is the CPU"
    assert world.view(elsewhere)["state"] == "queued"
