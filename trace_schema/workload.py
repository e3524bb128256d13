"""Workload: one set of sizes and inputs on which a definition is measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Tag, model_validator

from kernelmill.trace_schema import hashing
from kernelmill.trace_schema.base import Count, Finite, Float, Integer, Measure, Model, Scalar, Text

_REQUIRED = None
_PARAMS: dict[str, dict[str, float | None]] = {
    "normal": {"mean": 0.0, "std": 1.0},
    "uniform": {"low": 0.0, "high": 1.0},
    "randint": {"low": _REQUIRED, "high": _REQUIRED},
    "softmax": {"temperature": 1.0},
    "lognormal": {"mean": 0.0, "std": 1.0},
    "constant": {"value": _REQUIRED},
}
_OPTIONAL: dict[str, tuple[str, ...]] = {"normal": ("column_std",)}
"""Parameters that say nothing where they are left out."""


class Distribution(Model):
    """What random elements are drawn from; a kind takes its own parameters only."""

    kind: Literal["normal", "uniform", "randint", "softmax", "lognormal", "constant"]
    """normal, lognormal (mean 0, std 1), uniform (low 0, high 1), randint (low, high), softmax (temperature 1) or
    constant (value); numbers are defaults."""
    mean: Finite | None = None
    """Mean of a normal; of the logarithm for lognormal."""
    std: Measure | None = None
    """Standard deviation of a normal; of the logarithm for lognormal."""
    column_std: Measure | None = None
    """normal: standard deviation of what all elements of a column have in common, as a router's logits of one expert.
    A column has one place along the last axis; nothing is in common where this is left out."""
    low: Finite | None = None
    """Least value of uniform or randint."""
    high: Finite | None = None
    """End of uniform or randint, itself excluded."""
    temperature: Measure | None = None
    """softmax: normal logits are divided by it before the softmax over the last axis."""
    value: Float | None = None
    """constant: every element's value."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        wanted = (*_PARAMS[self.kind], *_OPTIONAL.get(self.kind, ()))
        for name in ("mean", "std", "column_std", "low", "high", "temperature", "value"):
            if getattr(self, name) is not None and name not in wanted:
                raise ValueError(f"{self.kind} takes {', '.join(wanted)}, not {name}")
        params = self._effective()
        if missing := [name for name, value in params.items() if value is _REQUIRED]:
            raise ValueError(f"{self.kind} needs {', '.join(missing)}")
        low, high = params.get("low"), params.get("high")
        if low is not None and high is not None and low >= high:
            raise ValueError(f"{self.kind}: low {low!r} must be less than high {high!r}")
        if self.kind == "randint" and not all(float(value or 0).is_integer() for value in params.values()):
            raise ValueError(f"randint: low {low!r} and high {high!r} must be whole numbers")
        if params.get("temperature") == 0:
            raise ValueError("softmax: temperature must be more than 0")
        return self

    @property
    def params(self) -> dict[str, float]:
        """The kind's parameters with their defaults filled in; whole numbers for randint."""
        found = {name: value for name, value in self._effective().items() if value is not None}
        return {name: int(value) for name, value in found.items()} if self.kind == "randint" else found

    def _effective(self) -> dict[str, float | None]:
        given = {name: getattr(self, name) for name in _PARAMS[self.kind]}
        found = {name: default if given[name] is None else given[name] for name, default in _PARAMS[self.kind].items()}
        extra = {name: getattr(self, name) for name in _OPTIONAL.get(self.kind, ())}
        return found | {name: value for name, value in extra.items() if value is not None}


class RandomInput(Model):
    """Values drawn anew by the judge."""

    type: Literal["random"] = "random"
    """Marks a random input."""
    distribution: Distribution | None = None
    """What the elements are drawn from; chosen by dtype when left out."""


class SafetensorsInput(Model):
    """A tensor stored in a file."""

    type: Literal["safetensors"] = "safetensors"
    """Marks a stored tensor."""
    path: Text
    """The file, relative to the dataset's root."""
    tensor_key: Text
    """The tensor's key in that file."""
    sha256: Text | None = None
    """Hex SHA-256 of the file, so that its content is part of the workload's identity."""


class ScalarInput(Model):
    """A Python number, passed by value."""

    type: Literal["scalar"] = "scalar"
    """Marks a scalar."""
    value: Scalar
    """The number: int, float and bool stay what they are."""


def _input_type(raw: Any) -> str | None:
    if not isinstance(raw, Mapping):
        return getattr(raw, "type", None)
    if "type" in raw:
        return str(raw["type"])
    if "path" in raw or "tensor_key" in raw:
        return "safetensors"
    return "scalar" if "value" in raw else "random"


InputSpec = Annotated[
    Annotated[RandomInput, Tag("random")]
    | Annotated[SafetensorsInput, Tag("safetensors")]
    | Annotated[ScalarInput, Tag("scalar")],
    Discriminator(
        _input_type,
        custom_error_type="input_type",
        custom_error_message='an input is {"type": "random"}, {"type": "safetensors", "path": ..., "tensor_key": ...} '
        'or {"type": "scalar", "value": ...}',
    ),
]


class Provenance(Model):
    """Where a workload was taken from; further fields say more."""

    kind: Literal["request_trace", "engine", "region", "phase", "synthetic"]
    """request_trace, engine, region, phase or synthetic."""


class Workload(Model):
    """Sizes and inputs of one call."""

    axes: dict[str, Count]
    """Size of each variable axis."""
    inputs: dict[str, InputSpec]
    """Where each input comes from."""
    uuid: Text
    """Unique among the workloads of its definition."""
    weight: Measure | None = None
    """How many calls of its source it stands for; 1 when left out."""
    seed: Integer | None = None
    """Fixes the random inputs where nothing has to be secret."""
    split: Text | None = None
    """Which part of the dataset it belongs to, such as public or hidden."""
    provenance: Provenance | None = None
    """Where it was taken from."""

    def hash(self) -> str:
        """SHA-256 of what is called: axes, inputs, seed. Not uuid, weight, split or provenance."""
        inputs = {name: _input_content(spec) for name, spec in self.inputs.items()}
        return hashing.digest("workload", {"axes": self.axes, "inputs": inputs, "seed": self.seed})

    def __hash__(self) -> int:
        return hash(self.hash())


def _input_content(spec: RandomInput | SafetensorsInput | ScalarInput) -> list[Any]:
    match spec:
        case RandomInput():
            drawn = spec.distribution
            return [spec.type, drawn and [drawn.kind, drawn.params]]
        case SafetensorsInput():
            return [spec.type, spec.path, spec.tensor_key, spec.sha256]
        case ScalarInput():
            return [spec.type, spec.value]
