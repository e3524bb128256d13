"""Numbers, text and unknown fields at the border."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from kernelmill.trace_schema import Comparator, Correctness, Model, Performance, Statistics, Workload
from tests import builders


@pytest.mark.parametrize("value", [7, 7.0, 2**53 + 1, 2**100])
def test_whole_numbers_of_any_size_are_exact(value: float) -> None:
    size = builders.workload(axes={"n": value}).axes["n"]
    assert size == value
    assert type(size) is int


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (True, "a whole number is needed, not true"),
        ("7", "a whole number is needed, not the text '7'"),
        (7.5, "a whole number is needed, not 7.5"),
        (math.inf, "a whole number is needed, not inf"),
        (-1, "greater than or equal to 0"),
        (None, "valid integer"),
    ],
)
def test_what_is_no_whole_number(value: Any, complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        builders.workload(axes={"n": value})


def test_a_float_keeps_an_integer_that_a_double_would_lose() -> None:
    performance = Performance.model_validate({"latency_ms": 2**53 + 1, "speedup_factor": 3})
    assert performance.latency_ms == 2**53 + 1
    assert type(performance.speedup_factor) is float


@pytest.mark.parametrize(
    ("value", "complaint"), [(True, "not true"), ("1.5", "not '1.5'"), (10**400, "larger than a double")]
)
def test_what_is_no_float(value: Any, complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        Performance.model_validate({"latency_ms": value})


@pytest.mark.parametrize("spelling", ["Infinity", "infinity", "INF", "+inf", math.inf])
def test_infinity_in_any_spelling_is_written_as_one(spelling: Any) -> None:
    errors = Correctness.model_validate({"max_absolute_error": spelling})
    assert errors.max_absolute_error == math.inf
    assert errors.model_dump(mode="json", exclude_unset=True) == {"max_absolute_error": "Infinity"}
    assert json.loads(errors.model_dump_json(exclude_unset=True)) == {"max_absolute_error": "Infinity"}


@pytest.mark.parametrize("token", ["NaN", '"NaN"', '"nan"'])
def test_nan_is_read_as_a_bare_token_or_text(token: str) -> None:
    errors = Correctness.model_validate_json(f'{{"max_relative_error": {token}}}')
    assert math.isnan(errors.max_relative_error)
    assert errors.model_dump_json(exclude_unset=True) == '{"max_relative_error":"NaN"}'


def test_non_finite_numbers_inside_unknown_fields_are_text_too() -> None:
    errors = Correctness.model_validate_json('{"extra": {"a": [NaN]}, "unknown": -Infinity}')
    expected = {"extra": {"a": ["NaN"]}, "unknown": "-Infinity"}
    assert errors.model_dump(mode="json", exclude_unset=True) == expected
    assert json.loads(errors.model_dump_json(exclude_unset=True)) == expected


@pytest.mark.parametrize("bad", [-0.1, "NaN"])
def test_times_are_numbers_and_not_negative(bad: Any) -> None:
    with pytest.raises(ValidationError, match="must not be"):
        Performance.model_validate({"latency_ms": bad})


def test_statistics_are_finite() -> None:
    with pytest.raises(ValidationError, match="must be finite"):
        Statistics.model_validate({"ratio": "Infinity"})


@pytest.mark.parametrize(
    "where", [{"unknown": "\ud800"}, {"\udc00": 1}, {"params": {"x": ["\ud800"]}}, {"kind": "\udfff"}]
)
def test_a_lone_surrogate_is_refused_everywhere(where: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"surrogate|unicode"):
        Comparator.model_validate({"kind": "elementwise", **where})


@pytest.mark.parametrize("value", [{1, 2}, b"bytes", {1: 2}, object()])
def test_unknown_fields_must_be_json(value: Any) -> None:
    with pytest.raises(ValidationError, match="JSON"):
        Workload.model_validate(builders.raw_workload(unknown=value))


def test_unknown_fields_are_bounded_in_depth() -> None:
    nested: Any = 0
    for _ in range(101):
        nested = [nested]
    with pytest.raises(ValidationError, match="deeper than 100 levels"):
        builders.workload(unknown=nested)
    assert builders.plain(builders.workload(unknown=nested[0]))["unknown"] == nested[0]


def test_an_unknown_field_cannot_replace_a_method() -> None:
    workload = builders.workload(hash="forged", model_dump="forged")
    assert workload.hash() == builders.workload().hash()
    assert builders.plain(workload)["hash"] == "forged"


@pytest.mark.parametrize("value", [0, 1, "true", "yes"])
def test_flags_are_true_or_false(value: Any) -> None:
    with pytest.raises(ValidationError, match="valid boolean"):
        builders.solution(spec={"destination_passing_style": value})


def test_records_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        builders.workload().uuid = "other"


def test_importing_the_schema_imports_no_other_package_than_pydantic() -> None:
    code = "import sys, kernelmill.trace_schema; print(*{name.partition('.')[0] for name in sys.modules})"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    foreign = {name for name in out.split() if not name.startswith("_")} - sys.stdlib_module_names - {"sitecustomize"}
    pydantic = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"}
    assert foreign <= {"kernelmill"} | pydantic


def test_the_first_use_may_come_from_many_threads() -> None:
    code = """
import sys, threading
from tests import builders
sys.setswitchinterval(1e-6)
barrier, done = threading.Barrier(8), []
def work(i):
    barrier.wait()
    done.append([builders.trace, builders.definition, builders.solution, builders.workload][i % 4]())
threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(done))
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "8", out.stderr


def every_model(base: type[Model] = Model) -> list[type[Model]]:
    return [model for child in base.__subclasses__() for model in (child, *every_model(child))]


def test_every_field_says_what_it_is() -> None:
    silent = [
        f"{model.__name__}.{name}"
        for model in every_model()
        if model.__module__.startswith("kernelmill.trace_schema")
        for name, field in model.model_fields.items()
        if not field.description
    ]
    assert silent == []
