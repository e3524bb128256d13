"""Take a dataset's traces into the database, a batch at a time; what is there already is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from sqlalchemy import select

from kernelmill.leaderboard.db import tables as t
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.traces import Owner, store
from kernelmill.trace_schema import Trace

if TYPE_CHECKING:
    from kernelmill.dataset import Dataset

BATCH = 500


def ingest(database: Database, dataset: Dataset) -> int:
    """How many were new. Traces of other sources than the stored ones count for nothing, and are left out."""
    with database.read() as connection:
        rows = connection.execute(select(t.Solution.name, t.Solution.hash, t.Solution.author_id)).all()
    owners = {row.name: Owner(row.hash, row.author_id, is_ranked=True) for row in rows}
    found = dataset.traces()
    count = 0
    while batch := list(islice(found, BATCH)):
        with database.write() as connection:
            count += sum(store(connection, trace, owner) for trace, owner in _owned(batch, owners))
    return count


def _owned(traces: list[Trace], owners: dict[str, Owner]) -> Iterator[tuple[Trace, Owner]]:
    for trace in traces:
        owner = owners.get(trace.solution or "")
        subject = trace.evaluation.subject if trace.evaluation else None
        if owner is not None and subject is not None and subject.solution_hash == owner.solution_hash:
            yield trace, owner
