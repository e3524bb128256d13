"""`kernelmill schema`: the JSON Schema of the record types."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from kernelmill.trace_schema.export import SCHEMAS, SchemaName, json_schema


def register(app: typer.Typer) -> None:
    """Adds the `schema` command to `app`."""
    app.command("schema")(schema)


def schema(
    name: Annotated[SchemaName | None, typer.Argument(help="Which record; all four, by name, when left out.")] = None,
) -> None:
    """Print the JSON Schema of definition, workload, solution or trace."""
    found = json_schema(name) if name else {each: json_schema(each) for each in SCHEMAS}
    typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
