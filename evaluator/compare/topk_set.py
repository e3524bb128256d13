"""Comparator kind "topk_set": the chosen indices of each row as a set. Params: indices[, values][, candidates].

Order does not count. No index may stand twice, and -1 is padding: a row has exactly as many as the reference's. An
index that the reference did not choose is right only in the place of one that is as good. The candidates are named by

- `scores`, an input [..., candidates] by which is chosen. Another index's score must be that of the one it replaces,
  exactly: a tie.
- `pages` [rows, pages of a row] and `lengths` [rows], inputs of a paged cache, with the axis page_size. Scores are the
  kernel's own, and close to the cut the order hangs on their last bits: in a full row 1 index in SLACK may be another
  of the row's candidates. (A row with padding holds every candidate there is, so it has no cut.)
- neither: the sets must be the same.

`values` names an output that holds each chosen index's value, such as its routing weight. It is bounded elementwise,
values in the order of their indices, or where a tie was decided otherwise in the order of the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import torch

from kernelmill.evaluator.compare.base import PASSED, AllOf, Comparator, Expectation, Finding, Truth, wrong
from kernelmill.evaluator.compare.defaults import tensor_names
from kernelmill.evaluator.compare.elementwise import Elementwise, judged
from kernelmill.evaluator.compare.errors import Bound
from kernelmill.trace_schema import Definition
from kernelmill.trace_schema.errors import DatasetError

if TYPE_CHECKING:
    from kernelmill.evaluator.case import Case

SLACK = 256
PADDING = -1
OUT_OF_RANGE = "out-of-range"
NOT_CHOSEN = "not among the best"


class Candidates(Protocol):
    """Out of what a row chose."""

    def as_good(self, row: int, extra: torch.Tensor, missing: torch.Tensor) -> str:
        """Why the `extra` indices can't replace the `missing` ones of the reference in this row, or nothing."""


class Scored:
    """Candidates whose scores are known: [rows, candidates]."""

    def __init__(self, scores: torch.Tensor) -> None:
        self._scores = scores.reshape(-1, scores.shape[-1])

    def as_good(self, row: int, extra: torch.Tensor, missing: torch.Tensor) -> str:
        if int(extra.max()) >= self._scores.shape[-1]:
            return OUT_OF_RANGE
        mine, theirs = (self._scores[row, ids].sort().values for ids in (extra, missing))
        return "" if torch.equal(mine, theirs) else "not as good as those they replace"


class Paged:
    """Candidates that lie in a row's pages, with scores that nobody sees."""

    def __init__(self, pages: torch.Tensor, lengths: torch.Tensor, page_size: int, slack: torch.Tensor) -> None:
        self._pages = pages.long()
        self._lengths = lengths.flatten().tolist()
        self._size = page_size
        self._slack = slack.tolist()

    def as_good(self, row: int, extra: torch.Tensor, missing: torch.Tensor) -> str:
        places = torch.arange(self._lengths[row], device=self._pages.device)
        known = self._pages[row, places // self._size] * self._size + places % self._size
        if not bool(torch.isin(extra, known).all()):
            return OUT_OF_RANGE
        return NOT_CHOSEN if len(extra) > self._slack[row] else ""


class Unknown:
    """Candidates that the params don't name."""

    def as_good(self, row: int, extra: torch.Tensor, missing: torch.Tensor) -> str:
        return NOT_CHOSEN


class ChosenSet(Expectation):
    """The right set of each row, and the values that go with it."""

    def __init__(self, names: Mapping[str, str], indices: torch.Tensor, candidates: Candidates) -> None:
        self._names = names
        self._chosen = rows(indices)
        self._sorted, self._order = self._chosen.sort(-1)
        self._candidates = candidates
        self.values: Bound | None = None

    def judge(self, outputs: Mapping[str, torch.Tensor]) -> Finding:
        mine = rows(outputs[self._names["indices"]])
        reason = self._malformed(mine) or self._not_as_good(mine)
        if reason:
            return wrong(f"output {self._names['indices']!r}: {reason}")
        return self._judge_values(mine, outputs) if self.values is not None else PASSED

    def _malformed(self, mine: torch.Tensor) -> str:
        if bool((mine < PADDING).any()):
            return f"{int((mine < PADDING).sum())} indices are {OUT_OF_RANGE}"
        ordered, _ = mine.sort(-1)
        twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != PADDING)
        if bool(twice.any()):
            return f"{int(twice.sum())} indices are duplicates"
        padding = ((mine == PADDING).sum(-1) != (self._chosen == PADDING).sum(-1)).sum()
        return f"{int(padding)} rows hold more or less padding than the reference's" if padding else ""

    def _not_as_good(self, mine: torch.Tensor) -> str:
        differing = torch.nonzero((mine.sort(-1).values != self._sorted).any(-1)).flatten().tolist()
        for row in differing:
            extra, missing = others(mine[row], self._chosen[row]), others(self._chosen[row], mine[row])
            if reason := self._candidates.as_good(row, extra, missing):
                return f"row {row} holds {len(extra)} indices that the reference's does not: {reason}"
        return ""

    def _judge_values(self, mine: torch.Tensor, outputs: Mapping[str, torch.Tensor]) -> Finding:
        assert self.values is not None
        values = outputs[self._names["values"]].reshape(mine.shape)
        right = self.values.exact.reshape(mine.shape)
        same = (mine.sort(-1).values == self._sorted).all(-1, keepdim=True)
        paired = torch.where(same, values.gather(-1, mine.argsort(-1)), values.sort(-1).values)
        expected = torch.where(same, right.gather(-1, self._order), right.sort(-1).values)
        return judged(self._names["values"], paired, self.values._replace(exact=expected))


class TopkSet(Comparator):
    """Compares chosen indices as sets, their values with them, and every other output elementwise."""

    def __init__(self, definition: Definition, params: Mapping[str, Any]) -> None:
        self._names = tensor_names(definition, params, "indices", "values", "scores", "pages", "lengths")
        if "indices" not in self._names:
            raise DatasetError(f"{definition.name}: comparator topk_set needs the param indices, got {dict(params)}")
        self._others = Elementwise(definition)

    def prepare(self, case: Case, inputs: Mapping[str, torch.Tensor], truth: Truth) -> Expectation:
        indices, values = self._names["indices"], self._names.get("values")
        candidates = self._candidates(case, inputs, rows(truth.declared[indices]))
        chosen = ChosenSet(self._names, truth.declared[indices], candidates)
        if values is not None:
            alike = truth.exact is not None and torch.equal(truth.exact[indices], truth.declared[indices])
            # Where the float64 run broke a tie otherwise, its values belong to other indices.
            exact = truth.best(values) if alike else truth.declared[values]
            chosen.values = self._others.bound(values, truth.declared[values], exact)
        special = {indices, values}
        rest = [self._others.expect(output.name, truth) for output in case.outputs if output.name not in special]
        return AllOf([chosen, *rest])

    def _candidates(self, case: Case, inputs: Mapping[str, torch.Tensor], chosen: torch.Tensor) -> Candidates:
        if "scores" in self._names:
            return Scored(inputs[self._names["scores"]])
        if {"pages", "lengths"} <= self._names.keys() and "page_size" in case.axes:
            pages, lengths = inputs[self._names["pages"]], inputs[self._names["lengths"]]
            full = (chosen != PADDING).all(-1)
            return Paged(pages, lengths, case.axes["page_size"], torch.where(full, chosen.shape[-1] // SLACK, 0))
        return Unknown()

    def agree(self, outputs: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor]) -> bool | None:
        """Only where the sets are the same; otherwise the reference is asked."""
        mine, order = rows(outputs[self._names["indices"]]).sort(-1)
        theirs, other_order = rows(others[self._names["indices"]]).sort(-1)
        if not torch.equal(mine, theirs):
            return False
        special = {self._names["indices"], self._names.get("values")}
        one = {name: output for name, output in outputs.items() if name not in special}
        two = {name: others[name] for name in one}
        if values := self._names.get("values"):
            one[values] = outputs[values].reshape(mine.shape).gather(-1, order)
            two[values] = others[values].reshape(mine.shape).gather(-1, other_order)
        return self._others.agree(one, two)


def rows(indices: torch.Tensor) -> torch.Tensor:
    """As int64 [rows, chosen]."""
    return indices.long().reshape(-1, indices.shape[-1])


def others(some: torch.Tensor, than: torch.Tensor) -> torch.Tensor:
    """Those of `some` that `than` has not."""
    return some[~torch.isin(some, than)]
