from __future__ import annotations

import json
import re
from typing import Any

import pytest
from click.testing import CliRunner

from edgebox.cli.main import main
from edgebox.config.keys import keys_of, tables_below
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
        "Config", "Server", "Limits", "Files", "Compression", "Log", "Site", "Route", "Cache",
        "Upstream", "UpstreamServer", "UpstreamHealth", "UpstreamTls", "Nic", "Planning", "Status",
        "Control",
    }  # fmt: skip
    assert all(table["additionalProperties"] is False for table in schema["$defs"].values())


def test_every_key_is_described(schema: dict[str, Any]) -> None:
    for _, table in tables_below(Config):
        for name in keys_of(table):
            assert of(schema, table.__name__, name)["description"]


@pytest.mark.parametrize(
    ("table", "key", "kind", "default", "others"),
    [
        ("Limits", "head_size", "integer", "16 KiB", ["1.5 MiB", "100"]),
        ("Limits", "linger", "number", "2s", ["500ms", "1 h"]),
        ("Limits", "send_rate", "integer", "1 kB/s", ["1 Gbit/s"]),
        ("Files", "sendfile_chunk", "integer", "1 MiB", []),
        ("Upstream", "keep_alive_idle", "number", "1500ms", ["2s"]),
        ("Route", "body_size", "integer", "100 MiB", ["10 GiB"]),
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
        (table["title"], name)
        for table in schema["$defs"].values()
        for name, said in table["properties"].items()
        if {"const": "auto"} in said.get("anyOf", [])
    }
    assert autos == {
        ("Server", "backlog"), ("Limits", "connections"), ("Files", "working_set"),
        ("Files", "open_files"), ("Files", "watches"), ("Compression", "dir"),
        ("Cache", "dir"), ("Route", "default_freshness"), ("Server", "workers"),
        ("Limits", "send_buffer"), ("Cache", "via"), ("Control", "socket"), ("Nic", "speed"),
        ("Nic", "interface"), ("Planning", "memory"), ("Planning", "object_size"),
        ("Planning", "round_trip"), ("Planning", "connection_size"),
    }  # fmt: skip
    assert '"null"' not in json.dumps(schema)
    assert of(schema, "Files", "working_set")["default"] == "auto"
    assert of(schema, "Files", "working_set")["anyOf"][0]["type"] == ["integer", "string"]


def test_tables_in_tables_are_told(schema: dict[str, Any]) -> None:
    named = of(schema, "Config", "upstream")["additionalProperties"]
    assert named == {"$ref": "#/$defs/Upstream"}
    assert of(schema, "Site", "route")["items"] == {"$ref": "#/$defs/Route"}
    assert of(schema, "Upstream", "health")["$ref"] == "#/$defs/UpstreamHealth"
    assert of(schema, "Upstream", "servers")["items"]["anyOf"] == [
        {"type": "string"},
        {"$ref": "#/$defs/UpstreamServer"},
    ]
    assert schema["$defs"]["Upstream"]["required"] == ["servers"]


def test_bounds_and_choices_are_told(schema: dict[str, Any]) -> None:
    assert of(schema, "Compression", "br_level")["maximum"] == 11
    assert of(schema, "Files", "stat_cache")["enum"] == ["inotify", "off", "ttl"]


def test_the_schema_is_printed_the_same_each_time() -> None:
    first = CliRunner().invoke(main, ["config-schema"]).stdout
    assert first.endswith("}\n")
    assert first == CliRunner().invoke(main, ["config-schema"]).stdout
