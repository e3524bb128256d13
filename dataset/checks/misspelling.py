"""Fields that the schema does not know but that look like one it knows: kept, without effect, probably a mistake."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from kernelmill.dataset.checks.finding import Finding, Place
from kernelmill.trace_schema.base import Model

_LIKENESS = 0.8


def check(place: Place, record: Model, path: str = "$") -> Iterator[Finding]:
    fields = type(record).model_fields
    for key in record.model_extra or {}:
        if near := difflib.get_close_matches(key.lower(), fields, n=1, cutoff=_LIKENESS):
            message = f"the field {key!r} is not part of the schema and has no effect"
            yield place.warning(f"{path}.{key}", message, f"did you mean {near[0]!r}?")
    for name in record.model_fields_set & fields.keys():
        yield from _inside(place, getattr(record, name), f"{path}.{name}")


def _inside(place: Place, value: object, path: str) -> Iterator[Finding]:
    if isinstance(value, Model):
        yield from check(place, value, path)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _inside(place, item, f"{path}.{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _inside(place, item, f"{path}[{number}]")
