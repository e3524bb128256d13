"""The schema as JSON Schema, for editors and other languages."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from kernelmill.trace_schema.base import Model
from kernelmill.trace_schema.definition import Definition
from kernelmill.trace_schema.solution import Solution
from kernelmill.trace_schema.trace import Trace
from kernelmill.trace_schema.workload import Workload


class SchemaName(StrEnum):
    """Records that have a JSON Schema."""

    DEFINITION = "definition"
    WORKLOAD = "workload"
    SOLUTION = "solution"
    TRACE = "trace"


SCHEMAS = tuple(name.value for name in SchemaName)

_MODELS: dict[str, type[Model]] = {
    "definition": Definition,
    "workload": Workload,
    "solution": Solution,
    "trace": Trace,
}


def json_schema(name: str) -> dict[str, Any]:
    """JSON Schema (2020-12) of one of SCHEMAS; ValueError for another name."""
    if name not in _MODELS:
        raise ValueError(f"no schema is called {name!r}: choose one of {', '.join(SCHEMAS)}")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_any_of(_MODELS[name].model_json_schema())}


def _any_of(schema: Any) -> Any:
    """`anyOf` for `oneOf`: where `type` is left out, more than one branch of a union can match."""
    if isinstance(schema, dict):
        return {"anyOf" if key == "oneOf" else key: _any_of(value) for key, value in schema.items()}
    return [_any_of(item) for item in schema] if isinstance(schema, list) else schema
