"""Three kinds of error, by whose fault it is. Each has one outcome.

- `SubmissionError`: the author's. Becomes a verdict in a Trace.
- `DatasetError`: the dataset's (a file, a definition, a reference). Reported with its place; no trace is written.
- `InternalError`: ours or the host's. A HARNESS_ERROR: never stored, run again by `--resume`.
"""

from __future__ import annotations


class KernelMillError(Exception):
    """Base of every error that KernelMill raises on purpose."""


class SubmissionError(KernelMillError):
    """The submitted solution is at fault."""


class DatasetError(KernelMillError):
    """A file of the dataset, a definition or its reference is at fault."""


class InternalError(KernelMillError):
    """KernelMill or this host is at fault; the author must not pay for it."""


class ConstraintError(DatasetError):
    """An expression of a definition is outside the grammar or can't be evaluated; `column` counts from 1."""

    def __init__(self, message: str, *, expression: str, column: int | None = None) -> None:
        super().__init__(message)
        self.expression = expression
        self.column = column


class MissingNameError(ConstraintError):
    """An expression needs an axis or tensor that was not given, such as one whose file is missing."""

    def __init__(self, message: str, *, expression: str, name: str, column: int | None = None) -> None:
        super().__init__(message, expression=expression, column=column)
        self.name = name
