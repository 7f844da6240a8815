"""The reference for people says what the schema says."""

from __future__ import annotations

from pathlib import Path

from edgebox.config.keys import keys_of, tables_below
from edgebox.config.reference import reference
from edgebox.config.schema import Config

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_is_what_the_schema_gives() -> None:
    """Made anew by: edgebox config-schema --markdown > docs/configuration.md"""
    assert PAGE.read_text() == reference()


def test_every_key_is_on_it_with_what_it_takes() -> None:
    lines = reference().splitlines()
    for _, table in tables_below(Config):
        for name, key in keys_of(table).items():
            if not key.is_table:
                (_, found, takes, default, about, _) = next(
                    cells
                    for line in lines
                    if len(cells := line.replace("\\|", "/").split("|")) == 6
                    and cells[1] == f" `{name}` "
                )
                assert takes.strip() not in ("", "a value"), found
                assert default.strip(), found
                assert len(about) > 5, found
