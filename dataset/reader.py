"""Reads records from the places that the index names, and keeps what it finds wrong with them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import ValidationError

from kernelmill.dataset.index import Index, Place, Query
from kernelmill.dataset.problems import Problem, from_validation
from kernelmill.trace_schema import Solution, Trace
from kernelmill.trace_schema.base import Model
from kernelmill.trace_schema.errors import DatasetError

_TRIES = 3
D = TypeVar("D", bound=Model)


class Located(NamedTuple):
    """One line of a workload or trace file."""

    file: str
    line: int
    trace: Trace


class _Replaced(Exception):
    """The file at `path` is not the one that the index described."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class Reader:
    """Every read looks first whether the files have changed, and brings the index up to date where they have."""

    def __init__(self, root: Path, index: Index) -> None:
        self._root, self._index = root, index
        self._met: dict[tuple[str, int, str], Problem] = {}
        self._appended: set[str] = set()
        Trace.model_rebuild()  # its validator is made on first use, which takes longer than any look-up may

    def workloads(self, definition: str | None = None) -> Iterator[Located]:
        for path in self._fresh(definition, "workloads"):
            yield from self._lines(partial(self._index.workloads, path, definition))

    def traces(self, query: Query) -> Iterator[Located]:
        for path in self._fresh(query.definition, "traces"):
            yield from self._lines(partial(self._index.traces, path, query))

    def best(self, query: Query, axes: str) -> Trace | None:
        self._fresh(query.definition, "traces")
        for found in self._lines(partial(self._index.best, query, axes)):
            return found.trace
        return None

    def document(self, model: type[D], path: str) -> D:
        """The definition or solution at `path`; DatasetError where the file no longer holds one."""
        try:
            return model.model_validate_json((self._root / path).read_bytes())
        except OSError as error:
            raise DatasetError(f"{path} cannot be read any more: {error.strerror}; open the dataset anew") from error
        except ValidationError as error:
            problem = next(from_validation(error, path, None))
            raise DatasetError(f"{problem}; the file has changed since the dataset was opened") from error

    def solutions(self, definition: str | None = None) -> Iterator[tuple[str, Solution]]:
        """Paths and solutions. One that can no longer be read is left to `problems`."""
        for path in self._index.documents("solutions", definition):
            try:
                yield path, self.document(Solution, path)
            except DatasetError as error:
                self._met[path, 0, "$"] = Problem(path, None, "$", str(error))

    def appended(self, path: str) -> None:
        """Says that a line was added to `path`, which may be new."""
        self._appended.add(path)

    def look(self) -> None:
        """Takes in the lines appended since."""
        self._index.touch(self._appended)
        self._appended.clear()

    def forget(self) -> None:
        """Starts anew: the index has just looked at every file."""
        self._met.clear()
        self._appended.clear()

    def problems(self) -> list[Problem]:
        found = {problem.place: problem for problem in self._index.problems()}
        return sorted({**self._met, **found}.values(), key=attrgetter("place"))

    def _fresh(self, definition: str | None, counted: str) -> list[str]:
        if definition is None:
            self._index.refresh()
        else:
            self._index.touch({*self._index.files(definition, counted), *self._appended})
        self._appended.clear()
        return self._index.files(definition, counted)

    def _lines(self, find: Callable[[], list[Place]]) -> Iterator[Located]:
        """The lines at the places found, which are in one file or of which the caller takes the first only."""
        for _ in range(_TRIES):
            try:
                for _, places in groupby(find(), key=attrgetter("file")):
                    yield from self._read(list(places))
                return
            except _Replaced as replaced:
                self._index.touch([replaced.path])
        raise DatasetError(f"a file of {self._root} is being replaced again and again; try later")

    def _read(self, places: list[Place]) -> Iterator[Located]:
        path = places[0].path
        try:
            stream = (self._root / path).open("rb")
        except OSError as error:
            raise _Replaced(path) from error
        with stream:
            if not self._index.holds_for(places[0], os.fstat(stream.fileno())):
                raise _Replaced(path)
            for place in places:
                stream.seek(place.offset)
                try:
                    trace = Trace.model_validate_json(stream.read(place.length))
                except ValidationError as error:
                    found = from_validation(error, path, place.line)
                    self._met.update((problem.place, problem) for problem in found)
                else:
                    yield Located(path, place.line, trace)
