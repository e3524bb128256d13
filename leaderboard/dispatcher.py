"""The dispatcher: takes submissions from the database, has them judged on one device, and writes down each verdict.

It may die at any moment. Then its lease runs out, the next one takes the submission up, and judges what has no verdict.
A database that is away is waited for; a verdict is kept in hand meanwhile.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from sqlalchemy import Connection, select, update

from kernelmill.evaluator.admission import device_model_of
from kernelmill.evaluator.executors import Executor
from kernelmill.evaluator.executors.base import Seen
from kernelmill.evaluator.runner import Event
from kernelmill.leaderboard import boards, clones, leases, traces
from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.engine import Database, DatabaseUnreachable
from kernelmill.leaderboard.db.insert import insert_new
from kernelmill.leaderboard.db.types import now
from kernelmill.leaderboard.leases import Cancelled, Lease, LeaseLost
from kernelmill.leaderboard.likeness import fingerprint
from kernelmill.leaderboard.spool import Spool, Unmeasured, read_order
from kernelmill.trace_schema import Solution, Trace, Verdict
from kernelmill.trace_schema.errors import DatasetError, KernelMillError

IDLE_S = 0.2
OFFER_S = 10.0
"""How often a dispatcher says that it is there."""
PATIENCE_S = 600.0
"""How long a database may be away before a verdict in hand is given up; it is then judged again."""
OURS = "the judge failed, which is no fault of the solution; the operator finds the cause in the log under this id"
DATASETS = "the dataset is at fault, not the solution; the operator finds the cause in the log under this id"
T = TypeVar("T")
_log = logging.getLogger("kernelmill.dispatcher")


@dataclass(slots=True)
class Run:
    """What came of one lease so far."""

    states: set[str] = field(default_factory=set)
    skipped: list[str] = field(default_factory=list)
    dataset_errors: list[str] = field(default_factory=list)
    harness_errors: list[str] = field(default_factory=list)


class Dispatcher:
    """One device, or one place on a cluster. `opener` makes its executor, again after one was lost."""

    def __init__(
        self,
        database: Database,
        opener: Callable[[], Executor],
        spool: Spool,
        holder: str,
        *,
        lease_s: float = 60.0,
        attempts: int = 3,
    ) -> None:
        self._database = database
        self._opener = opener
        self._spool = spool
        self._holder = holder
        self._lease_s = lease_s
        self._attempts = attempts
        self._executor: Executor | None = None
        self._next_offer = 0.0

    def run(self, stop: threading.Event) -> None:
        """Until told to stop; what is being judged then is left to the next one."""
        self._spool.clear_all()
        try:
            while not stop.is_set():
                if not self.step(stop):
                    stop.wait(IDLE_S)
        finally:
            self.close()

    def step(self, stop: threading.Event) -> bool:
        """One submission, or a board; whether there was anything to do."""
        seen = self._open().seen
        try:
            if not self._is_due(seen):
                return boards.refresh_next(self._database)
            with self._database.write() as connection:
                _offer(connection, seen)
                lease = leases.take(connection, seen, self._holder, lease_s=self._lease_s, attempts=self._attempts)
            if lease is None:
                return boards.refresh_next(self._database)
        except DatabaseUnreachable as error:
            _log.warning("waiting for the database: %s", error)
            return False
        self._work(lease, stop)
        return True

    def _is_due(self, seen: Seen) -> bool:
        """Whether it is worth a transaction that writes: something may wait, or it is time to show up again."""
        if time.monotonic() < self._next_offer:
            with self._database.read() as connection:
                return leases.is_waiting(connection, seen)
        self._next_offer = time.monotonic() + OFFER_S
        return True

    def _work(self, lease: Lease, stop: threading.Event) -> None:
        _log.info("judging", extra={"submission": lease.id, "fence": lease.fence, "attempt": lease.attempt})
        with _heartbeat(self._database, lease, self._lease_s) as gone:
            try:
                self._judge(lease, lambda: stop.is_set() or gone.is_set())
            except KernelMillError as error:
                self.close()
                self._settle(lease, error)

    def _settle(self, lease: Lease, error: KernelMillError) -> None:
        """A lease that did not come to its end. Its author is told whose fault it was, the log what it was."""
        _log.warning("%s", error, extra={"submission": lease.id, "fence": lease.fence})
        try:
            if isinstance(error, Unmeasured):
                reason = str(error)
                self._patiently(lambda c: leases.finish(c, lease, "failed", reason=reason))
            elif isinstance(error, DatasetError):
                self._patiently(lambda c: leases.finish(c, lease, "failed", reason=DATASETS))
            elif isinstance(error, Cancelled):
                self._patiently(lambda c: leases.finish(c, lease, "cancelled", reason="cancelled while it was judged"))
            elif not isinstance(error, LeaseLost):
                self._patiently(lambda c: leases.retry(c, lease, OURS, attempts=self._attempts))
        except LeaseLost:
            _log.warning("it was somebody else's by then", extra={"submission": lease.id, "fence": lease.fence})

    def _judge(self, lease: Lease, stopped: Callable[[], bool]) -> None:
        with self._database.read() as connection:
            order = read_order(connection, lease)
        self._recognise(lease)
        unit = self._spool.lay(lease, order)
        run = Run()
        try:
            for event in self._open().run([unit], stopped):
                self._take(lease, event, run)
        finally:
            self._spool.clear(self._spool.root / f"{lease.id}-{lease.fence}")
        if stopped():
            self._patiently(lambda c: leases.hold(c, lease, lease_s=self._lease_s))  # says why, if it was not `stop`
            raise LeaseLost(f"stopping; the submission {lease.id} is left to the next dispatcher")
        self._conclude(lease, run, {workload.uuid for workload in order.workloads})

    def _recognise(self, lease: Lease) -> None:
        """Whether its source is a near clone of an earlier one. Lexing takes a while: no transaction waits for it."""
        with self._database.read() as connection:
            unseen = clones.unseen(connection, lease.solution_hash)
        for key, body in unseen:
            own = fingerprint(Solution.model_validate_json(body))
            self._patiently(lambda c, key=key, own=own: clones.note(c, key, own))  # type: ignore[misc]

    def _take(self, lease: Lease, event: Event, run: Run) -> None:
        if event.trace is not None:
            trace = event.trace
            if "judging" not in run.states:
                run.states.add("judging")
                self._patiently(lambda c: leases.hold(c, lease, lease_s=self._lease_s, state="judging"))
            self._patiently(lambda c: traces.record(c, lease, trace))
            if lease.is_ranked:
                self._refresh(trace)
        elif event.kind == "skipped":
            run.skipped.append(event.text)
        elif event.kind == "dataset_error":
            run.dataset_errors.append(event.text)
        elif event.kind == "harness_error":
            run.harness_errors.append(event.text)

    def _refresh(self, trace: Trace) -> None:
        """At once where it can be; else the next idle moment does it, since the board is marked."""
        try:
            boards.refresh(self._database, trace.definition, device_model_of(trace))
        except DatabaseUnreachable as error:
            _log.warning("the board of %s is behind: %s", trace.definition, error)

    def _conclude(self, lease: Lease, run: Run, wanted: set[str]) -> None:
        """Done if every workload has its verdict; else whose fault is it?"""

        def conclude(connection: Connection) -> None:
            leases.check(connection, lease)
            rows = connection.execute(
                select(t.Trace.workload_uuid, t.Trace.verdict).where(t.Trace.submission_id == lease.id)
            ).all()
            verdicts = {row.workload_uuid: row.verdict for row in rows}
            if wanted and wanted <= verdicts.keys():
                passed = all(verdict == Verdict.PASSED for verdict in verdicts.values())
                leases.finish(connection, lease, "done", outcome="passed" if passed else "not_passed")
            elif not wanted:
                leases.finish(connection, lease, "failed", reason=f"No workloads found for {lease.definition}")
            elif run.dataset_errors:
                leases.finish(connection, lease, "failed", reason=DATASETS)
            elif run.skipped and not run.harness_errors:
                leases.finish(connection, lease, "failed", reason=run.skipped[0])
            else:
                leases.retry(connection, lease, OURS, attempts=self._attempts)

        for error in (*run.dataset_errors, *run.harness_errors):
            _log.error("%s", error, extra={"submission": lease.id})
        self._patiently(conclude)
        if run.harness_errors:
            self.close()

    def _patiently(self, work: Callable[[Connection], T]) -> T:
        """In one transaction, tried again while the database is away. All that is done here may be done twice."""
        deadline, wait = time.monotonic() + PATIENCE_S, 0.1
        while True:
            try:
                with self._database.write() as connection:
                    return work(connection)
            except DatabaseUnreachable as error:
                if time.monotonic() > deadline:
                    raise
                _log.warning("waiting for the database: %s", error)
                time.sleep(wait)
                wait = min(2 * wait, 5.0)

    def _open(self) -> Executor:
        if self._executor is None:
            self._executor = self._opener()
        return self._executor

    def close(self) -> None:
        """Its executor with it; the next step opens another one."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.close()


def _offer(connection: Connection, seen: Seen) -> None:
    """Say that there is a dispatcher for this device."""
    insert_new(connection, t.Device, {"model": seen.model, "kind": seen.kind})
    connection.execute(update(t.Device).where(t.Device.model == seen.model).values(seen_at=now(), kind=seen.kind))


@contextmanager
def _heartbeat(database: Database, lease: Lease, lease_s: float) -> Iterator[threading.Event]:
    """Extends the lease in the background; the event is set once it is lost or to be cancelled."""
    gone, ended = threading.Event(), threading.Event()

    def beat() -> None:
        while not ended.wait(lease_s / 3 if lease_s < 6 else 2.0):
            try:
                with database.write() as connection:
                    leases.hold(connection, lease, lease_s=lease_s)
            except DatabaseUnreachable as error:
                _log.warning("waiting for the database: %s", error)
            except (LeaseLost, Cancelled):
                gone.set()
                return

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield gone
    finally:
        ended.set()
        thread.join()
