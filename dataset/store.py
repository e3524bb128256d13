"""Dataset: a folder of definitions, workloads, solutions and traces, read lazily and appended to safely."""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from pydantic import ValidationError

from kernelmill.dataset import append, blobs, lfs, paths
from kernelmill.dataset.index import Index, Query
from kernelmill.dataset.problems import Problem
from kernelmill.dataset.reader import Reader
from kernelmill.dataset.scan import axes_key
from kernelmill.trace_schema import Definition, SafetensorsInput, Solution, Status, Trace, Workload
from kernelmill.trace_schema.base import Model
from kernelmill.trace_schema.errors import DatasetError


class Definitions(Mapping[str, Definition]):
    """The dataset's definitions by name, sorted; each is read when first asked for."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._read: dict[str, Definition] = {}

    def __getitem__(self, name: str) -> Definition:
        if name not in self._read:
            path = self._dataset.index.document("definitions", name)
            if path is None:
                raise KeyError(name)
            self._read[name] = self._dataset.reader.document(Definition, path)
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._dataset.index.document("definitions", name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._dataset.index.names("definitions"))

    def __len__(self) -> int:
        return self._dataset.counts()["definitions"]


class Dataset:
    """An open dataset. Its index is brought up to date when it is opened, and for the files that a call reads."""

    def __init__(self, root: Path, cache_dir: Path, lfs_timeout_s: float | None) -> None:
        self.root = root
        """The real path of its folder."""
        self.index = Index(root, cache_dir)
        self.reader = Reader(root, self.index)
        self._lfs_timeout_s = lfs_timeout_s
        self._verified: set[tuple[str, int, int, str]] = set()
        self.refresh()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        cache_dir: str | os.PathLike[str] | None = None,
        lfs_timeout_s: float | None = None,
    ) -> Dataset:
        """The dataset at `path`, else the one that the environment names, else the shipped one.

        `cache_dir` is where its index is kept. With `lfs_timeout_s` blobs that are Git LFS pointers are fetched by
        `git`, each within that many seconds; without it they are a DatasetError that says how to fetch them.
        """
        chosen = Path(path) if path is not None else paths.default_path()
        if not chosen.is_dir():
            raise DatasetError(f"there is no dataset at {chosen}: name a folder that holds definitions/, or make one")
        return cls(chosen.resolve(), Path(cache_dir) if cache_dir else paths.default_cache(), lfs_timeout_s)

    def refresh(self) -> None:
        """Takes in what others have changed since the dataset was opened."""
        self.definitions: Mapping[str, Definition] = Definitions(self)
        self.index.refresh()
        self.reader.forget()

    def definition(self, definition: str | Definition) -> Definition:
        """The definition of that name; DatasetError, with the nearest names, where there is none."""
        if isinstance(definition, Definition):
            return definition
        try:
            return self.definitions[definition]
        except KeyError:
            raise self._unknown("definition", definition) from None

    def solutions(self, definition: str | Definition | None = None) -> Iterator[Solution]:
        """All solutions, or those of one definition. One that cannot be read is left to `problems`."""
        for _, solution in self.reader.solutions(_name(definition)):
            yield solution

    def solution(self, name: str) -> Solution:
        path = self.index.document("solutions", name)
        if path is None:
            raise self._unknown("solution", name)
        return self.reader.document(Solution, path)

    def workloads(self, definition: str | Definition) -> Iterator[Workload]:
        """The definition's workloads in file order. A line that breaks the schema is left to `problems`."""
        name = _name(definition)
        if name not in self.definitions and not self.index.files(name, "workloads"):
            raise self._unknown("definition", name)
        for found in self.reader.workloads(name):
            yield found.trace.workload

    def traces(
        self,
        definition: str | Definition | None = None,
        solution: str | None = None,
        author: str | None = None,
        device_model: str | None = None,
        status: Status | str | None = None,
    ) -> Iterator[Trace]:
        """Evaluated traces, by file and line; every argument narrows. The author is the solution's."""
        query = Query(_name(definition), solution, author, device_model, status and str(status))
        for found in self.reader.traces(query):
            yield found.trace

    def best_trace(
        self,
        definition: str | Definition,
        axes: Mapping[str, int],
        *,
        solution: str | None = None,
        author: str | None = None,
        device_model: str | None = None,
    ) -> Trace | None:
        """The PASSED trace with the highest ratio to the baseline, on a workload with exactly these variable axes.

        Traces without a ratio (written elsewhere) come after those with one, by latency. Without `device_model` devices
        are mixed. This is a look-up: who may be ranked or deployed is decided elsewhere, from all traces of a solution.
        """
        query = Query(_name(definition), solution, author, device_model)
        return self.reader.best(query, axes_key(dict(axes)))

    def counts(self) -> dict[str, int]:
        """How many definitions, solutions, workloads and traces there were at the last look, or appended here since."""
        self.reader.look()
        return self.index.counts()

    def problems(self) -> list[Problem]:
        """What opening found wrong, and what reading has met since, by file and line. The rest is usable.

        Lines are checked against the whole schema when they are read: `kernelmill validate` reads them all.
        """
        return self.reader.problems()

    def append(self, trace: Trace) -> None:
        """Adds a trace to its author's file, or a workload to its definition's; on the disk when this returns."""
        definition = self._known_definition(trace.definition)
        if trace.is_workload:
            path = paths.workload_file(definition.op_type, definition.name)
        else:
            path = self._trace_file(definition, trace)
        append.append_line(self.root, path, _dump(trace) + b"\n")
        self.reader.appended(path)

    def revise_workloads(
        self, definition: str | Definition, revise: Callable[[list[Workload]], Sequence[Workload]]
    ) -> None:
        """Replaces the definition's workloads by what `revise` makes of them, while nobody else can write any.

        What it gives back as it was given keeps its bytes, and so does a line that cannot be read.
        """
        owner = self._known_definition(_name(definition))
        path = paths.workload_file(owner.op_type, owner.name)
        append.revise_file(self.root, path, lambda data: _revised(owner.name, data, revise))
        self.reader.appended(path)

    def add_definition(self, definition: Definition) -> None:
        """Writes a new definition; DatasetError where another one has its name."""
        existing = self.index.document("definitions", definition.name)
        path = paths.definition_file(definition.op_type, definition.name)
        self._add(definition, path, existing)

    def add_solution(self, solution: Solution) -> None:
        """Writes a new solution; DatasetError where another one has its name, or its definition is unknown."""
        definition = self._known_definition(solution.definition)
        existing = self.index.document("solutions", solution.name)
        path = paths.solution_file(solution.author, definition.op_type, definition.name, solution.name)
        self._add(solution, path, existing)

    def add_blob(self, definition: str | Definition, tensors: Mapping[str, Any]) -> dict[str, SafetensorsInput]:
        """Stores tensors (numpy or torch) in a file named by their content; returns what a workload says of each."""
        owner = self.definition(definition)
        data = blobs.encode(tensors)
        content = hashlib.sha256(data).hexdigest()
        path = f"{paths.blob_folder(owner.op_type, owner.name)}/{owner.name}_{content[:32]}.safetensors"
        if not (self.root / path).exists():
            append.write_file(self.root, path, data)
        return {key: SafetensorsInput(type="safetensors", path=path, tensor_key=key, sha256=content) for key in tensors}

    def blob_path(self, relative: str) -> Path:
        """The file behind a workload's path. DatasetError where it leaves the dataset, is missing or an LFS pointer."""
        path = paths.inside(self.root, relative)
        try:
            pointer = lfs.is_pointer(path)
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                raise blobs.MissingBlob(f"the blob {relative} is missing; fetch or restore it") from error
            raise DatasetError(f"the blob {relative} cannot be read: {error.strerror}; restore it") from error
        if pointer:
            normal = os.path.normpath(relative)
            if self._lfs_timeout_s is None:
                advice = f"run `{lfs.pull_command(normal)}` in {self.root}"
                raise blobs.MissingBlob(f"the blob {relative} is a Git LFS pointer, not the file; {advice}")
            lfs.fetch(self.root, normal, self._lfs_timeout_s)
        return path

    def load_tensor(self, spec: SafetensorsInput, framework: blobs.Framework | None = None) -> Any:
        """The stored tensor: of `framework`, else a numpy array, or a torch tensor where numpy lacks the dtype."""
        return blobs.load(self.verified_path(spec), spec.tensor_key, framework)

    def verified_path(self, spec: SafetensorsInput) -> Path:
        """Like `blob_path`, and DatasetError where the workload gives a SHA-256 that the file has not."""
        path = self.blob_path(spec.path)
        if spec.sha256 is not None:
            status = path.stat()
            once = (spec.path, status.st_size, status.st_ctime_ns, spec.sha256)
            if once not in self._verified and (found := blobs.digest(path)) != spec.sha256.lower():
                reason = f"the blob {spec.path} has SHA-256 {found}, not {spec.sha256} as its workload says"
                raise DatasetError(f"{reason}; restore it")
            self._verified.add(once)
        return path

    def _add(self, document: Definition | Solution, path: str, existing: str | None) -> None:
        if existing is not None or (self.root / path).exists():
            at = existing or path
            if _dump(self.reader.document(type(document), at)) == _dump(document):
                return
            raise DatasetError(f"{document.name!r} stands in {at} already, with other content; choose another name")
        append.write_file(self.root, path, document.model_dump_json(exclude_unset=True, indent=2).encode() + b"\n")
        self.index.touch([path])

    def _trace_file(self, definition: Definition, trace: Trace) -> str:
        if trace.solution is None or trace.evaluation is None:
            raise DatasetError("a trace has a solution and an evaluation, or neither (a workload); complete it")
        if self.index.document("solutions", trace.solution) is None:
            self.refresh()  # another process may have added it
        solution = self.solution(trace.solution)
        if solution.definition != definition.name:
            reason = f"the solution {solution.name!r} implements {solution.definition!r}, not {definition.name!r}"
            raise DatasetError(f"{reason}; correct the trace")
        return paths.trace_file(solution.author, definition.op_type, definition.name)

    def _known_definition(self, name: str) -> Definition:
        if name not in self.definitions:
            self.refresh()  # another process may have added it
        return self.definition(name)

    def _unknown(self, what: str, name: str) -> DatasetError:
        near = difflib.get_close_matches(name, self.index.names(f"{what}s"), n=3)
        hint = (
            f"did you mean {' or '.join(near)}?"
            if near
            else f"`kernelmill validate {self.root}` lists what is wrong there"
        )
        return DatasetError(f"{self.root} holds no {what} {name!r}; {hint}")


@overload
def _name(definition: str | Definition) -> str: ...
@overload
def _name(definition: str | Definition | None) -> str | None: ...
def _name(definition: str | Definition | None) -> str | None:
    return definition.name if isinstance(definition, Definition) else definition


def _dump(record: Model) -> bytes:
    return record.model_dump_json(exclude_unset=True).encode()


def _revised(definition: str, data: bytes, revise: Callable[[list[Workload]], Sequence[Workload]]) -> bytes:
    lines = [line + b"\n" for line in data.split(b"\n") if line.strip()]
    traces = [_workload_trace(line) for line in lines]
    known = {id(trace.workload): line for trace, line in zip(traces, lines, strict=True) if trace is not None}
    before = {trace.workload.uuid: trace for trace in traces if trace is not None}
    after = revise([trace.workload for trace in traces if trace is not None])
    made = [line for trace, line in zip(traces, lines, strict=True) if trace is None]
    for workload in after:
        if (line := known.get(id(workload))) is None:
            trace = before.get(workload.uuid) or Trace(definition=definition, workload=workload)
            line = _dump(trace.model_copy(update={"workload": workload})) + b"\n"
        made.append(line)
    return b"".join(made)


def _workload_trace(line: bytes) -> Trace | None:
    try:
        trace = Trace.model_validate_json(line)
    except ValidationError:
        return None
    return trace if trace.is_workload else None
