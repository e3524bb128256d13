"""Solution: the source code of one implementation of a definition, and how to build and call it."""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from kernelmill.trace_schema import hashing
from kernelmill.trace_schema.base import Flag, Model, Text

MAX_COMPONENT_BYTES = 255


class Language(StrEnum):
    """What a solution is written in."""

    PYTHON = "python"
    TRITON = "triton"
    CPP = "cpp"
    CUDA = "cuda"
    TILELANG = "tilelang"

    @property
    def is_native(self) -> bool:
        """Whether it is compiled ahead of the call, through a binding."""
        return self in (Language.CPP, Language.CUDA)


class Binding(StrEnum):
    """How native code is called from Python."""

    TVM_FFI = "tvm-ffi"
    TORCH = "torch"


def normal_path(path: str) -> str:
    """The one spelling of a relative source path ("./a.py" is "a.py"); ValueError where it could escape."""
    if any(unicodedata.category(char) == "Cc" for char in path):
        raise ValueError(f"source path {path!r} holds a control character")
    if "\\" in path or re.match("[A-Za-z]:", path):
        raise ValueError(f"source path {path!r} is a Windows path: use forward slashes and no drive")
    if path.startswith("/"):
        raise ValueError(
            f"source path {path!r}: absolute path not allowed, use one relative to the solution's directory"
        )
    components = path.split("/")
    if ".." in components:
        raise ValueError(f"source path {path!r}: parent directory traversal not allowed")
    if "" in components:
        raise ValueError(
            f"source path {path!r} has an empty component: write single slashes and a file name at the end"
        )
    if any(len(component.encode()) > MAX_COMPONENT_BYTES for component in components):
        raise ValueError(f"source path {path[:40]!r}...: a component is longer than {MAX_COMPONENT_BYTES} bytes")
    named = [component for component in components if component != "."]
    if not named or components[-1] == ".":
        raise ValueError(f"source path {path!r} names no file")
    return "/".join(named)


def _check_path(path: str) -> str:
    normal_path(path)
    return path


def _check_entry_point(entry_point: str) -> str:
    file, separator, symbol = entry_point.partition("::")
    if not separator or "::" in symbol or not symbol.strip():
        raise ValueError(f'entry point {entry_point!r} is not "<file>::<function>", such as "main.py::run"')
    normal_path(file)
    return entry_point


class SourceFile(Model):
    """One file of a solution."""

    path: Annotated[Text, AfterValidator(_check_path)]
    """Where the file goes, relative to the solution's own directory, with forward slashes."""
    content: Text
    """The file's text."""


class BuildSpec(Model):
    """How a solution is built and called."""

    language: Language
    """What the entry file is written in."""
    target_hardware: Annotated[list[str], Field(min_length=1)]
    """Hardware it is meant for, such as cpu, cuda or an accelerator's name."""
    entry_point: Annotated[Text, AfterValidator(_check_entry_point)]
    """`<file>::<function>`: what is called."""
    dependencies: list[Text] = Field(default_factory=list)
    """Libraries it needs, such as cutlass."""
    destination_passing_style: Flag = True
    """true: outputs are passed as last arguments and written to; false: they are returned."""
    binding: Binding | None = None
    """How C++ and CUDA code is called; null means tvm-ffi. Other languages ignore it."""

    @property
    def entry_file(self) -> str:
        """Normalised path of the entry file."""
        return normal_path(self.entry_point.partition("::")[0])

    @property
    def entry_symbol(self) -> str:
        """Name of the function that is called."""
        return self.entry_point.partition("::")[2]

    @property
    def effective_binding(self) -> Binding | None:
        """The binding in use: tvm-ffi where C++ or CUDA names none, None where the language has none."""
        return (self.binding or Binding.TVM_FFI) if self.language.is_native else None


class Solution(Model):
    """One implementation of a definition: source code, and how to build and call it."""

    name: Text
    """Unique in its dataset."""
    definition: Text
    """Name of the definition that it implements."""
    author: Text
    """Who wrote it: a person, a model or an engine."""
    spec: BuildSpec
    """How it is built and called."""
    sources: Annotated[list[SourceFile], Field(min_length=1)]
    """Every file of the implementation."""
    description: str | None = None
    """Its technique or approach."""
    license: Text | None = None
    """SPDX identifier of its licence; Apache-2.0 when left out."""
    derived_from: Text | None = None
    """Name or hash of the solution that it was made from."""

    @model_validator(mode="after")
    def _check_sources(self) -> Self:
        paths = [normal_path(source.path) for source in self.sources]
        _check_distinct(paths)
        # By spelling, as the public schema does: a file that loads here must load there too.
        spelled = [source.path for source in self.sources]
        if (entry := self.spec.entry_point.partition("::")[0]) not in spelled:
            raise ValueError(f"the entry file {entry!r} is not among the sources: {', '.join(map(repr, spelled))}")
        return self

    @property
    def files(self) -> dict[str, str]:
        """Content by normalised path, sorted by path."""
        return dict(sorted((normal_path(source.path), source.content) for source in self.sources))

    def hash(self) -> str:
        """SHA-256 of everything that changes what is built and called; who wrote it and what it is called don't."""
        return hashing.digest(
            "solution",
            {
                "definition": self.definition,
                "language": self.spec.language.value,
                "entry_point": [self.spec.entry_file, self.spec.entry_symbol],
                "binding": self.spec.effective_binding and self.spec.effective_binding.value,
                "destination_passing_style": self.spec.destination_passing_style,
                "dependencies": self.spec.dependencies,
                "target_hardware": self.spec.target_hardware,
                "sources": self.files,
            },
        )

    def __hash__(self) -> int:
        return hash(self.hash())


def _check_distinct(paths: list[str]) -> None:
    """No two sources may be one file on any file system, nor one be a directory that another needs."""
    seen: dict[str, str] = {}
    for path in paths:
        if (other := seen.setdefault(_file_identity(path), path)) != path or paths.count(path) > 1:
            raise ValueError(f"duplicate source path {path!r}: the same file as {other!r} on some file systems")
    for path in paths:
        identity = _file_identity(path)
        for end, char in enumerate(identity):
            if char == "/" and identity[:end] in seen:
                raise ValueError(f"source {seen[identity[:end]]!r} is a file and also the directory of {path!r}")


def _file_identity(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
