from __future__ import annotations

import datetime
import tomllib

from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.config.toml import write_header, write_key, write_path, write_value

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=40)
@given(TEXT, VALUES)
def test_what_is_written_reads_back_the_same(name: str, value: object) -> None:
    assert tomllib.loads(f"{write_key(name)} = {write_value(value)}") == {name: value}


def test_a_date_is_shown_as_it_is_written() -> None:
    assert write_value(datetime.date(2026, 11, 30)) == "2026-11-30"


def test_a_path_names_tables_and_elements() -> None:
    assert write_path(("site", 0, "headers", "X A")) == 'site[0].headers."X A"'
    assert write_path(("server", "listen", 2)) == "server.listen[2]"


def test_a_header_has_two_brackets_where_there_may_be_several() -> None:
    assert write_header(("server",)) == "[server]"
    assert write_header(("site", 0)) == "[[site]]"
    assert write_header(("site", 1, "route", 2)) == "[[site.route]]"
    assert write_header(("site", 1, "headers")) == "[site.headers]"
    assert write_header(("upstream", "a b", "tls")) == '[upstream."a b".tls]'
