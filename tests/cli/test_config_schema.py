from __future__ import annotations

import json
import re
from typing import Any

import pytest
from click.testing import CliRunner

from edgebox.cli.main import main
from edgebox.config.keys import keys_of, table_of
from edgebox.config.schema import Config


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    result = CliRunner().invoke(main, ["config-schema"])
    assert result.exit_code == 0
    read: dict[str, Any] = json.loads(result.stdout)
    return read


def of(schema: dict[str, Any], table: str, key: str) -> dict[str, Any]:
    found: dict[str, Any] = schema["$defs"][table]["properties"][key]
    return found


def test_unknown_keys_are_refused_in_every_table(schema: dict[str, Any]) -> None:
    assert set(schema["$defs"]) == {
        "Config", "Server", "Limits", "Files", "Compression", "Log", "Site",
    }  # fmt: skip
    assert all(table["additionalProperties"] is False for table in schema["$defs"].values())


def test_every_key_is_described(schema: dict[str, Any]) -> None:
    for key in keys_of(Config).values():
        table = table_of(key.kind)
        assert table is not None
        for name in keys_of(table):
            assert of(schema, table.__name__, name)["description"]


@pytest.mark.parametrize(
    ("table", "key", "kind", "default", "others"),
    [
        ("Limits", "head_size", "integer", "16 KiB", ["1.5 MiB", "100"]),
        ("Limits", "linger", "number", "2s", ["500ms", "1 h"]),
        ("Limits", "send_rate", "integer", "1 kB/s", ["1 Gbit/s"]),
        ("Files", "sendfile_chunk", "integer", "1 MiB", []),
    ],
)
def test_a_quantity_is_a_number_or_a_text_with_a_unit(
    schema: dict[str, Any], table: str, key: str, kind: str, default: str, others: list[str]
) -> None:
    said = of(schema, table, key)
    assert said["type"] == [kind, "string"]
    assert said["default"] == default
    assert all(re.search(said["pattern"], text) for text in [default, *others])
    assert not re.search(said["pattern"], "5 apples")
    assert not re.search(said["pattern"], f"x{default}")


def test_auto_is_allowed_where_the_planner_may_decide_and_nowhere_else(
    schema: dict[str, Any],
) -> None:
    autos = {
        name
        for table in schema["$defs"].values()
        for name, said in table["properties"].items()
        if {"const": "auto"} in said.get("anyOf", [])
    }
    assert autos == {"backlog", "connections", "working_set", "open_files", "watches", "dir"}
    assert '"null"' not in json.dumps(schema)
    assert of(schema, "Files", "working_set")["default"] == "auto"
    assert of(schema, "Files", "working_set")["anyOf"][0]["type"] == ["integer", "string"]


def test_bounds_and_choices_are_told(schema: dict[str, Any]) -> None:
    assert of(schema, "Compression", "br_level")["maximum"] == 11
    assert of(schema, "Files", "stat_cache")["enum"] == ["inotify", "off", "ttl"]


def test_the_schema_is_printed_the_same_each_time() -> None:
    first = CliRunner().invoke(main, ["config-schema"]).stdout
    assert first.endswith("}\n")
    assert first == CliRunner().invoke(main, ["config-schema"]).stdout
