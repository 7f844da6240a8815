"""`edgebox config-schema`: the JSON Schema with which editors complete and check edgebox.toml.

msgspec makes it from the types; what the file writes differently is added here: units
("64 MiB" beside 67108864) and "auto" where the type has None.
"""

from __future__ import annotations

import json
from typing import Any

import click
import msgspec

from edgebox.config.dump import plain_setting
from edgebox.config.keys import Key, keys_of, table_of, tables_below
from edgebox.config.marks import Record
from edgebox.config.reference import reference
from edgebox.config.schema import Config
from edgebox.config.units import Unit


@click.command("config-schema")
@click.option("--markdown", is_flag=True, help="Print the reference for people instead.")
def config_schema(markdown: bool) -> None:
    """Print the JSON Schema of edgebox.toml."""
    if markdown:
        click.echo(reference(), nl=False)
        return
    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))


def json_schema() -> dict[str, Any]:
    """A JSON Schema (2020-12) of the whole file; keys that are not in it are refused."""
    schema = msgspec.json.schema(Config)
    tables: list[type[Record]] = [Config, *(table for _, table in tables_below(Config))]
    for table in tables:
        properties = schema["$defs"][table.__name__]["properties"]
        for name, key in keys_of(table).items():
            properties[name] = _as_written(properties[name], key)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "edgebox.toml",
        **schema,
    }


def _as_written(said: dict[str, Any], key: Key) -> dict[str, Any]:
    """What msgspec said of a key, changed to what the file may hold."""
    said = dict(said)
    if "anyOf" in said:
        said["anyOf"] = [_choice(choice, key) for choice in said["anyOf"]]
    else:
        said = _choice(said, key)
    if "default" in said and table_of(key.kind) is None:
        said["default"] = plain_setting(said["default"], key)
    return said


def _choice(said: dict[str, Any], key: Key) -> dict[str, Any]:
    if said.get("type") == "null":
        return {"const": "auto"}
    return _with_unit(said, key.unit) if key.unit else said


def _with_unit(said: dict[str, Any], unit: Unit) -> dict[str, Any]:
    return said | {"type": [said["type"], "string"], "pattern": f"^{unit.pattern}$"}
