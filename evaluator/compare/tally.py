"""What comparing one output row by row adds up to: rows that are off, elements that are, and a gain."""

from __future__ import annotations

import math

import torch

from kernelmill.evaluator.compare.errors import Bound, shares

ROW_FACTOR = 1.5
GAIN_BIAS = 2.0**-8
"""What cutting a bfloat16 off, instead of rounding it, costs at most."""
GAIN_SHARE = 0.1
GAIN_SHARE_ROW = 0.4
"""Of one row's error: its quantised intermediate may have as few as a hundred elements that matter."""


class Tally:
    """What comparing one output row by row adds up to."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound
        self.elements = self.unmatched = self.rows = 0
        self.wrong_rows: list[int] = []
        self.worst_element = self.worst_row = 0.0
        self._along = self._energy = self._square = 0.0

    def add(self, mine: torch.Tensor, right: torch.Tensor) -> None:
        """Some rows of the output, [rows, row width] in float64, all finite."""
        error = mine - right
        share_of_row = shares(error.abs(), right)
        self.elements += error.numel()
        self.unmatched += int((share_of_row > self._bound.element).sum())
        self.worst_element = max(self.worst_element, float(share_of_row.max()))
        energy, square = right.square().sum(-1), error.square().sum(-1)
        off = torch.where(square > 0, (square / energy).sqrt(), 0.0)
        fine = off <= self.row_allowed
        self.wrong_rows += (torch.nonzero(~fine).flatten() + self.rows).tolist()
        self.rows += len(fine)
        self.worst_row = max(self.worst_row, float(off.max()))
        self._energy += float(energy[fine].sum())
        self._square += float(square[fine].sum())
        self._along += float((error * right).sum(-1)[fine].sum())

    @property
    def row_allowed(self) -> float:
        """Normalised rms error of a single row."""
        return ROW_FACTOR * self._bound.rms

    @property
    def rms(self) -> float:
        """Normalised rms error of the rows that are right."""
        return math.sqrt(self._square / self._energy) if self._energy else 0.0

    @property
    def gain(self) -> float:
        """How much too large the output is as a whole."""
        return self._along / self._energy if self._energy else 0.0

    @property
    def gain_allowed(self) -> float:
        rest = math.sqrt(max(0.0, self.rms**2 - self.gain**2))
        return GAIN_BIAS + (GAIN_SHARE + GAIN_SHARE_ROW / math.sqrt(max(1, self.rows))) * rest
