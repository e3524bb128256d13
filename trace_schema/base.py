"""What every record shares: frozen, lossless for what it does not know, strict where a coercion would lose something.

The round trip law: `M.model_validate(raw).model_dump_json(exclude_unset=True)` equals `raw` as JSON. From it follows:

- unknown fields are kept, checked to be JSON, and written back;
- integers are never made of true, false or text, and floats keep an integer that a double could not hold;
- a non-finite number is the text "NaN", "Infinity" or "-Infinity" in every JSON form. Other spellings ("nan", "inf",
  the bare tokens) are read too and written back as these three: the only respelling there is;
- text that UTF-8 can't carry (a lone surrogate, which a JSON escape can spell) is refused: it couldn't be written back.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    Strict,
    WithJsonSchema,
)

MAX_JSON_DEPTH = 100

_FLOAT_SCHEMAS = [{"type": "number"}, {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}]
_NON_FINITE = {
    "nan": math.nan,
    "inf": math.inf,
    "+inf": math.inf,
    "infinity": math.inf,
    "+infinity": math.inf,
    "-inf": -math.inf,
    "-infinity": -math.inf,
}


def _read_integer(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"a whole number is needed, not {str(value).lower()}: write 0 or 1 if a number is meant")
    if isinstance(value, str):
        raise ValueError(f"a whole number is needed, not the text {value!r}: write it without quotes")
    if isinstance(value, float):
        if not value.is_integer():
            raise ValueError(f"a whole number is needed, not {value!r}")
        return int(value)
    return value


def _read_float(value: object) -> float:
    if isinstance(value, bool):
        raise ValueError(f"a number is needed, not {str(value).lower()}")
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        return _int_as_float(value)
    if isinstance(value, str) and value.lower() in _NON_FINITE:
        return _NON_FINITE[value.lower()]
    raise ValueError(f'a number or "NaN", "Infinity", "-Infinity" is needed, not {value!r}')


def _read_scalar(value: object) -> bool | int | float:
    return value if isinstance(value, bool | int) else _read_float(value)


def _int_as_float(value: int) -> float:
    try:
        as_float = float(value)
    except OverflowError:
        raise ValueError("the number is larger than a double can hold") from None
    return as_float if as_float == value else value


def _write_float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _not_negative(value: float) -> float:
    if value < 0:
        raise ValueError(f"must not be negative, is {value!r}")
    return value


def _not_nan(value: float) -> float:
    if math.isnan(value):
        raise ValueError("must not be NaN")
    return value


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"must be finite, is {value!r}")
    return value


def _read_json(value: object, depth: int = 0) -> Any:
    if depth > MAX_JSON_DEPTH:
        raise ValueError(f"nested deeper than {MAX_JSON_DEPTH} levels")
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return _read_text(value)
    if isinstance(value, list | tuple):
        return [_read_json(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_read_text(key): _read_json(item, depth + 1) for key, item in value.items()}
    raise ValueError(f"not a JSON value: {type(value).__name__}")


def _read_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a JSON key is text, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"text with a lone surrogate at character {error.start} can't be written as UTF-8") from None
    return value


def _write_json(value: Any) -> Any:
    if isinstance(value, float):
        return _write_float(value)
    if isinstance(value, list):
        return [_write_json(item) for item in value]
    if isinstance(value, dict):
        return {key: _write_json(item) for key, item in value.items()}
    return value


Json = Annotated[Any, PlainValidator(_read_json), PlainSerializer(_write_json, return_type=Any, when_used="json")]
"""Any JSON value, kept as it is."""

Text = Annotated[str, Field(min_length=1)]
"""Text with at least one character."""

Flag = Annotated[bool, Strict()]
"""true or false; not 0, 1 or text."""

Integer = Annotated[int, BeforeValidator(_read_integer)]
"""A whole number of any size; `2.0` is read as 2."""

Count = Annotated[int, Field(ge=0), BeforeValidator(_read_integer)]
"""A whole number, zero or more."""

Float = Annotated[
    float,
    PlainValidator(_read_float),
    PlainSerializer(_write_float, return_type=Any, when_used="json"),
    WithJsonSchema({"anyOf": _FLOAT_SCHEMAS}),
]
"""Any number; an int where a float would not be exact."""

Magnitude = Annotated[Float, AfterValidator(_not_negative)]
"""Zero or more, infinite, or NaN: an error."""

Duration = Annotated[Float, AfterValidator(_not_negative), AfterValidator(_not_nan)]
"""Zero or more, or infinite: a time or a ratio of times."""

Scalar = Annotated[
    bool | int | float,
    PlainValidator(_read_scalar),
    PlainSerializer(_write_json, return_type=Any, when_used="json"),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, *_FLOAT_SCHEMAS]}),
]
"""A number or a flag, of exactly the type given."""

Finite = Annotated[Float, AfterValidator(_finite), WithJsonSchema({"type": "number"})]
"""Any finite number."""

Measure = Annotated[Finite, AfterValidator(_not_negative), WithJsonSchema({"type": "number", "minimum": 0})]
"""Finite, zero or more: a measured time, a ratio, a weight."""


class Model(BaseModel):
    """Base of every record of the schema. Building its validator at first use halves the time of an import."""

    model_config = ConfigDict(
        frozen=True, extra="allow", use_attribute_docstrings=True, protected_namespaces=(), defer_build=True
    )

    __pydantic_extra__: dict[str, Json] = Field(init=False)
