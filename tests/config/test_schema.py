"""The shipped edgebox.toml says what the schema says."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgebox.config.keys import keys_of, table_of
from edgebox.config.lines import key_lines
from edgebox.config.load import load
from edgebox.config.schema import Config

SHIPPED = Path(__file__).parent.parent.parent / "edgebox.toml"
TABLES = {name: table_of(key.kind) for name, key in keys_of(Config).items()}


def test_the_shipped_file_is_the_defaults() -> None:
    assert load(SHIPPED) == Config()


@pytest.mark.parametrize("table", TABLES)
def test_the_shipped_file_has_every_key(table: str) -> None:
    record = TABLES[table]
    assert record is not None
    written = {path[-1] for path in key_lines(SHIPPED.read_text()) if path[0] == table}
    assert set(keys_of(record)) <= written


def test_every_key_of_the_shipped_file_has_a_comment_above_it() -> None:
    text = SHIPPED.read_text()
    lines = text.splitlines()
    keys = {
        line: path
        for path, line in key_lines(text).items()
        if isinstance(path[-1], str) and len(path) > 1
    }
    assert [path for line, path in keys.items() if not lines[line - 2].startswith("# ")] == []


def test_the_shipped_file_tells_editors_of_its_schema() -> None:
    assert SHIPPED.read_text().startswith("#:schema ")


def test_every_key_has_a_description() -> None:
    for record in TABLES.values():
        assert record is not None
        assert record.__doc__
        assert [key.name for key in keys_of(record).values() if not key.about] == []
