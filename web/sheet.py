"""Tables as CSV, a line at a time, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from fastapi import Request
from starlette.responses import StreamingResponse

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes a text for a formula by."""
Cell = str | int | float | None


def wanted(request: Request) -> bool:
    return request.query_params.get("format") == "csv"


def sheet(name: str, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> StreamingResponse:
    """`name` is a word of ours, without an ending."""
    headers = {"Content-Disposition": f'attachment; filename="{name}.csv"', "Vary": "Accept, Cookie"}
    return StreamingResponse(_lines([header, *rows]), media_type="text/csv; charset=utf-8", headers=headers)


def _lines(rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    for row in rows:
        line = io.StringIO()
        csv.writer(line).writerow([safe(cell) for cell in row])
        yield line.getvalue()


def safe(cell: Cell) -> Cell:
    """A text that would be a formula comes after an apostrophe; numbers are left alone."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell
