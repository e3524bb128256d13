"""Values of index tensors lie within the axis that they index; -1 is padding where a description says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kernelmill.dataset.checks.context import Case, Context, is_integer
from kernelmill.dataset.checks.finding import Finding
from kernelmill.dataset.checks.indexed import bound, is_exclusive, used

_MINUS_ONE = re.compile(r"(?<![\w.])-1\b")


def check(context: Context) -> Iterator[Finding]:
    for case in context.cases():
        for name, spec in case.definition.inputs.items():
            if is_integer(spec) and (values := case.integers(name)) is not None:
                yield from _outside(case, name, used(case, name, values))
                yield from _repeated(case, name, values)


def _outside(case: Case, name: str, values: Any) -> Iterator[Finding]:
    path, limit = f"$.workload.inputs.{name}", bound(case, name)
    if limit is None or not values.size:
        return
    wrong = values[(values < -1) | (values >= limit.end)]
    if wrong.size:
        message = f"{wrong.size} of {values.size} values are not in [0, {limit.end}), such as {wrong[0]} ({limit.why})"
        yield case.place.error(path, message, "correct the tensor or the axis")
    description = f"{case.definition.inputs[name].description} {case.definition.description}"
    if (values == -1).any() and not _MINUS_ONE.search(description):
        yield case.place.warning(path, "it holds -1", "say in its description that -1 is padding, or correct it")


def _repeated(case: Case, name: str, values: Any) -> Iterator[Finding]:
    """Two rows that write one slot race; one sequence that reads a page twice was hardly recorded."""
    import numpy as np

    path = f"$.workload.inputs.{name}"
    if is_exclusive(name) and np.unique(values[values >= 0]).size < (values >= 0).sum():
        yield case.place.warning(path, "two rows share one slot, which both write to", "give each a slot of its own")
    offsets = case.integers(name.removesuffix("_indices") + "_indptr") if name.endswith("_indices") else None
    if (
        offsets is None
        or values.ndim != 1
        or offsets[0] < 0
        or offsets[-1] > values.size
        or (np.diff(offsets) < 0).any()
    ):
        return
    pages = values[offsets[0] : offsets[-1]]
    sequence = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    order = np.lexsort((pages, sequence))
    if ((np.diff(pages[order]) == 0) & (np.diff(sequence[order]) == 0)).any():
        yield case.place.warning(path, "a sequence names the same page twice", "record the pages anew")
