"""JSON Schema export and the `schema` command."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from kernelmill.trace_schema import SCHEMAS, json_schema
from kernelmill.trace_schema.commands import register


def app() -> typer.Typer:
    typer_app = typer.Typer()
    register(typer_app)
    typer_app.command("other")(lambda: None)
    return typer_app


def test_the_four_records() -> None:
    assert SCHEMAS == ("definition", "workload", "solution", "trace")
    with pytest.raises(ValueError, match="no schema is called 'axis'"):
        json_schema("axis")


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_describe_every_field_and_allow_more(name: str) -> None:
    schema = json_schema(name)
    assert schema["$schema"].endswith("2020-12/schema")
    for record in (schema, *schema["$defs"].values()):
        if record["type"] == "object":
            assert record["additionalProperties"] is not False
            assert all(field.get("description") for field in record["properties"].values()), record["title"]


def test_required_fields() -> None:
    assert set(json_schema("definition")["required"]) == {"name", "op_type", "axes", "inputs", "outputs", "reference"}
    assert set(json_schema("workload")["required"]) == {"uuid", "axes", "inputs"}
    assert set(json_schema("solution")["required"]) == {"name", "definition", "author", "spec", "sources"}
    assert set(json_schema("trace")["required"]) == {"definition", "workload"}


def test_bounds_are_part_of_it() -> None:
    axes = json_schema("workload")["properties"]["axes"]["additionalProperties"]
    assert (axes["type"], axes["minimum"]) == ("integer", 0)
    statistics = json_schema("trace")["$defs"]["Statistics"]["properties"]
    assert {"type": "number", "minimum": 0} in statistics["ratio"]["anyOf"]
    assert json_schema("solution")["properties"]["name"]["minLength"] == 1


def test_a_union_is_any_of_so_that_type_may_be_left_out() -> None:
    text = json.dumps(json_schema("trace"))
    assert '"oneOf"' not in text
    assert "anyOf" in json_schema("workload")["properties"]["inputs"]["additionalProperties"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_command_prints_one(name: str) -> None:
    result = CliRunner().invoke(app(), ["schema", name])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == json_schema(name)


def test_the_command_prints_all() -> None:
    result = CliRunner().invoke(app(), ["schema"])
    assert result.exit_code == 0
    assert tuple(json.loads(result.stdout)) == SCHEMAS


def test_an_unknown_name_is_a_usage_error() -> None:
    result = CliRunner().invoke(app(), ["schema", "axis"])
    assert result.exit_code == 2
    assert "axis" in result.stderr
