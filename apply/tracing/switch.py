"""Turning tracing on, in code or by the environment, inside or around `enable_apply`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kernelmill.apply import state
from kernelmill.apply.tracing.settings import TracingSettings
from kernelmill.apply.tracing.tracer import Tracer


class TracingSwitch:
    """What `enable_tracing` returns. As a context manager it undoes itself at the end."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self._switch = state.trace(tracer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()

    def report(self) -> dict[str, dict[str, Any]]:
        """Of each definition that was called: `calls` that fit and `unfit` ones by reason, as far as it is known."""
        return self.tracer.report()

    def undo(self) -> None:
        """Brings back what was in force before, and returns when all is written, or the deadline is over. Nothing
        happens where another switch lies above this one."""
        if self._switch.undo():
            self.tracer.stop()


def enable_tracing(
    out: str | os.PathLike[str] | None = None,
    *,
    dataset: str | os.PathLike[str] | None = None,
    only: Iterable[str] = (),
    by_value: Iterable[str] = (),
) -> TracingSwitch:
    """Collects workloads from the calls of this whole process, served or not, into the dataset at `out`.

    Traced are the definitions of `dataset` (KERNELMILL_DATASET, FIB_DATASET_PATH or the shipped one where left out) and
    of `out`, or those of them that `only` names; it may hold patterns. Whole numbers are stored as they were, floating
    inputs are random unless `by_value` names them. What is left out here is read from the environment. Raises
    ApplyError for settings that make no sense, DatasetError where there is no dataset.
    """
    over = {"KERNELMILL_TRACING_OUT": os.fspath(out)} if out is not None else {}
    settings = TracingSettings.read({**os.environ, **over})
    changed = dataclasses.replace(
        settings,
        dataset=Path(dataset) if dataset is not None else settings.dataset,
        only=tuple(only) or settings.only,
        by_value=frozenset(by_value) or settings.by_value,
    )
    return TracingSwitch(Tracer(changed))
